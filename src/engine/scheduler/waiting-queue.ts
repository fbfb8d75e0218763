// Waiting sequences and who is admitted next. The static key decides which tier's turn it is; within a tier the
// account with the fewest running sequences goes first, so that a flood from one account never shuts another out.
// Fairness lets nobody be overtaken by anyone more than 20 s younger, so that nothing waits for ever.

import { AGING_PER_SECOND, compareKeys, type Priority, type Sequence } from '../sequence.ts';
import { Heap } from './heap.ts';

const LONGEST_OVERTAKING = 20 * AGING_PER_SECOND;

/** The sequences of one account in one tier. */
interface Flow {
  readonly name: string;
  readonly priority: Priority;
  readonly waiting: Heap<Sequence>;
  running: number;
}

export class WaitingQueue {
  readonly #all = new Heap<Sequence>(compareKeys);
  readonly #flows = new Map<string, Flow>();
  /** By tier, those that have something waiting. */
  readonly #tiers = [0, 1, 2].map(() => new Heap<Flow>(compareFlows));

  get size(): number {
    return this.#all.size;
  }

  /** In no particular order. */
  [Symbol.iterator](): Iterator<Sequence> {
    return this.#all[Symbol.iterator]();
  }

  has(sequence: Sequence): boolean {
    return this.#all.has(sequence);
  }

  peek(): Sequence | undefined {
    const oldest = this.#all.peek();
    if (oldest === undefined) return undefined;
    const fair = this.#tierOf(oldest).peek()?.waiting.peek() as Sequence;
    return fair.key - oldest.key > LONGEST_OVERTAKING ? oldest : fair;
  }

  push(sequence: Sequence): void {
    const flow = this.#flowOf(sequence);
    const tier = this.#tierOf(sequence);
    this.#all.push(sequence);
    flow.waiting.push(sequence);
    if (tier.has(flow)) tier.update(flow);
    else tier.push(flow);
  }

  remove(sequence: Sequence): void {
    if (!this.#all.remove(sequence)) throw new Error(`sequence ${sequence.id} is not in the queue`);
    const flow = this.#flowOf(sequence);
    const tier = this.#tierOf(sequence);
    // Out of the heap while what it is compared by changes.
    tier.remove(flow);
    flow.waiting.remove(sequence);
    if (flow.waiting.size > 0) tier.push(flow);
    else this.#forgetIfIdle(flow);
  }

  /** Tells that a sequence has begun to run. */
  started(sequence: Sequence): void {
    this.#countRunning(sequence, 1);
  }

  /** Tells that a sequence runs no more. */
  stopped(sequence: Sequence): void {
    this.#countRunning(sequence, -1);
  }

  /** Running sequences of the same account and tier, as far as this queue was told. */
  runningBeside(sequence: Sequence): number {
    return this.#flows.get(flowName(sequence))?.running ?? 0;
  }

  #countRunning(sequence: Sequence, change: number): void {
    const flow = this.#flowOf(sequence);
    flow.running += change;
    this.#tierOf(sequence).update(flow);
    this.#forgetIfIdle(flow);
  }

  #tierOf({ priority }: Sequence): Heap<Flow> {
    return this.#tiers[priority] as Heap<Flow>;
  }

  #flowOf(sequence: Sequence): Flow {
    const name = flowName(sequence);
    const known = this.#flows.get(name);
    if (known !== undefined) return known;
    const flow: Flow = { name, priority: sequence.priority, waiting: new Heap(compareKeys), running: 0 };
    this.#flows.set(name, flow);
    return flow;
  }

  #forgetIfIdle(flow: Flow): void {
    if (flow.running === 0 && flow.waiting.size === 0) this.#flows.delete(flow.name);
  }
}

function flowName({ priority, account }: Sequence): string {
  return `${priority} ${account}`;
}

/** Flows in a tier's heap have something waiting. */
function compareFlows(a: Flow, b: Flow): number {
  return a.running - b.running || compareKeys(a.waiting.peek() as Sequence, b.waiting.peek() as Sequence);
}
