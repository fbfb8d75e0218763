// Waiting sequences and who is admitted next. Urgency decides which tier's turn it is; within a tier the account goes first
// that has had least work, computed and promised, so that a flood from one account never shuts another out, whatever its
// prompts and answers are like. An account that comes back after a pause begins with what the one has had that had least:
// pauses earn no credit. Fairness lets no account be overtaken by one whose turn came more than a minute later, so that
// nothing waits for ever.

import {
  compareServed,
  compareUrgency,
  compareWork,
  type Flow,
  ForgettingScale,
  LONGEST_OVERTAKING,
  newFlow,
  type Queued,
  turnAt,
  urgencyOf,
} from './flow.ts';
import { Heap } from './heap.ts';
import type { Sequence } from './sequence.ts';

interface Tier {
  /** By account. */
  readonly flows: Map<string, Flow>;
  /** Those that have something waiting, least work first. */
  readonly waiting: Heap<Flow>;
  /** Those that have something waiting or running, by what they were served. */
  readonly active: Heap<Flow>;
  /** All others, and since when, the longest first. */
  readonly idle: Map<Flow, number>;
}

/** What was computed for a flow in the step that is being committed. */
interface Charge {
  readonly flow: Flow;
  served: number;
  kept: number;
}

export class WaitingQueue {
  readonly #tiers: readonly Tier[] = [0, 1, 2].map(() => ({
    flows: new Map(),
    waiting: new Heap<Flow>(compareWork),
    active: new Heap(compareServed),
    idle: new Map(),
  }));
  /** Of each tier, those that have something waiting. */
  readonly #waiting = this.#tiers.map(({ waiting }) => waiting);
  /** Of all tiers together. */
  readonly #byUrgency = new Heap<Flow>(compareUrgency);
  readonly #scale = new ForgettingScale();
  /** Running sequences by account, in all tiers. */
  readonly #running = new Map<string, number>();
  /** What is left of the work that was promised to running sequences. */
  readonly #promises = new Map<Sequence, number>();
  /** Of sequences that have begun: when their flow had its last turn before them, and with them. */
  readonly #turns = new WeakMap<Sequence, { readonly before: number; readonly own: number }>();
  /** Accounts whose sequences wait for their own to end, so that others go before them. */
  readonly #held = new Set<string>();
  readonly #charges = new Map<Flow, Charge>();
  #lastCharge: Charge | undefined;
  #size = 0;

  get size(): number {
    return this.#size;
  }

  /** Accounts that have something running. */
  get runningAccounts(): number {
    return this.#running.size;
  }

  /** In no particular order. */
  *[Symbol.iterator](): Generator<Sequence> {
    for (const { flows } of this.#tiers) for (const { waiting } of flows.values()) yield* waiting;
  }

  has(sequence: Sequence): boolean {
    return this.#tierOf(sequence).flows.get(sequence.account)?.waiting.has(sequence) === true;
  }

  /** Work counts as of now from here on. */
  advance(nowMs: number): void {
    const factor = this.#scale.advance(nowMs);
    if (factor === undefined) return;
    for (const { flows } of this.#tiers) {
      for (const flow of flows.values()) {
        flow.served *= factor;
        flow.promised *= factor;
      }
    }
    for (const [sequence, work] of this.#promises) this.#promises.set(sequence, work * factor);
  }

  peek(): Sequence | undefined {
    return nextOf(this.#byUrgency, this.#waiting)?.waiting.peek();
  }

  push(sequence: Sequence): void {
    this.#size += 1;
    this.#change(this.#flowOf(sequence), (flow) => {
      flow.waiting.push(sequence);
      this.#giveTurnBack(flow, sequence);
    });
  }

  /** Of one that was preempted: unless others of its account have begun since, it waits as it did before, not anew. */
  #giveTurnBack(flow: Flow, sequence: Sequence): void {
    const turns = this.#turns.get(sequence);
    this.#turns.delete(sequence);
    if (sequence.state === 'preempted' && turns?.own === flow.turn) flow.turn = turns.before;
  }

  remove(sequence: Sequence): void {
    if (!this.has(sequence)) throw new Error(`sequence ${sequence.id} is not in the queue`);
    this.#size -= 1;
    this.#change(this.#flowOf(sequence), (flow) => flow.waiting.remove(sequence));
  }

  /**
   * Who would be admitted, one after the other, if nothing else happened, of accounts that are held, too. Played through on
   * copies; `workOf` says how much work is ahead of a sequence that starts.
   */
  order(most: number, workOf: (sequence: Sequence) => number): Sequence[] {
    const tiers = this.#tiers.map(() => new Heap<Queued>(compareWork));
    const byUrgency = new Heap<Queued>(compareUrgency);
    const heapsOf = ({ priority }: Queued) => [tiers[priority] as Heap<Queued>, byUrgency];
    const upcoming = new Map<Queued, Upcoming>();
    for (const flow of this.#tiers.flatMap(({ flows }) => [...flows.values()])) {
      if (flow.waiting.size === 0) continue;
      const waiting = new Upcoming(flow.waiting);
      const copy = { ...flow, waiting };
      upcoming.set(copy, waiting);
      for (const heap of heapsOf(copy)) heap.push(copy);
    }
    const order: Sequence[] = [];
    for (let next = nextOf(byUrgency, tiers); next !== undefined && order.length < most; ) {
      const sequence = (upcoming.get(next) as Upcoming).take();
      order.push(sequence);
      next.running += 1;
      next.promised += workOf(sequence) * this.#scale.scale;
      next.turn = turnAt(next, this.#scale.nowMs);
      for (const heap of heapsOf(next)) {
        if (next.waiting.peek() === undefined) heap.remove(next);
        else heap.update(next);
      }
      next = nextOf(byUrgency, tiers);
    }
    return order;
  }

  /** Passes over an account until it is resumed. */
  hold(account: string): void {
    this.#held.add(account);
    this.#replace(account);
  }

  resume(account: string): void {
    if (this.#held.delete(account)) this.#replace(account);
  }

  resumeAll(): void {
    for (const account of this.#held) this.resume(account);
  }

  #replace(account: string): void {
    for (const { flows } of this.#tiers) {
      const flow = flows.get(account);
      if (flow !== undefined) this.#change(flow, () => {});
    }
  }

  /** A sequence has begun to run, with `work` ahead of it. */
  started(sequence: Sequence, work: number): void {
    const promise = work * this.#scale.scale;
    this.#promises.set(sequence, promise);
    this.#running.set(sequence.account, this.runningOf(sequence.account) + 1);
    this.#change(this.#flowOf(sequence), (flow) => {
      flow.running += 1;
      flow.promised += promise;
      const own = turnAt(flow, this.#scale.nowMs);
      this.#turns.set(sequence, { before: flow.turn, own });
      flow.turn = own;
    });
  }

  /** A sequence runs no more. */
  stopped(sequence: Sequence): void {
    const promise = this.#promises.get(sequence) ?? 0;
    this.#promises.delete(sequence);
    const running = this.runningOf(sequence.account) - 1;
    if (running === 0) this.#running.delete(sequence.account);
    else this.#running.set(sequence.account, running);
    this.#change(this.#flowOf(sequence), (flow) => {
      flow.running -= 1;
      flow.promised = flow.running === 0 ? 0 : flow.promised - promise;
    });
  }

  /** `work` was computed for a sequence, part of what it was promised, or more. Counts with `settle`. */
  computed(sequence: Sequence, work: number): void {
    const charge = this.#chargeOf(sequence);
    const served = work * this.#scale.scale;
    charge.served += served;
    const promise = this.#promises.size === 0 ? undefined : this.#promises.get(sequence);
    if (promise === undefined) return;
    charge.kept += Math.min(promise, served);
    if (promise > served) this.#promises.set(sequence, promise - served);
    else this.#promises.delete(sequence);
  }

  #chargeOf(sequence: Sequence): Charge {
    // Sequences of one account often follow each other.
    const last = this.#lastCharge;
    if (last?.flow.account === sequence.account && last.flow.priority === sequence.priority) return last;
    const flow = this.#flowOf(sequence);
    const charge = this.#charges.get(flow) ?? { flow, served: 0, kept: 0 };
    this.#charges.set(flow, charge);
    this.#lastCharge = charge;
    return charge;
  }

  /** Makes all that was computed count. */
  settle(): void {
    for (const { flow, served, kept } of this.#charges.values()) {
      this.#change(flow, () => {
        flow.served += served;
        flow.promised = Math.max(0, flow.promised - kept);
      });
    }
    this.#charges.clear();
    this.#lastCharge = undefined;
  }

  /** Running sequences of the same account and tier, as this queue counts them. */
  runningOfAccount(sequence: Sequence): number {
    return this.#tierOf(sequence).flows.get(sequence.account)?.running ?? 0;
  }

  /** Running sequences of an account in all tiers. */
  runningOf(account: string): number {
    return this.#running.get(account) ?? 0;
  }

  /** What the sequence's account was served in its tier, to be compared with others of the tier. */
  servedOf(sequence: Sequence): number {
    return this.#tierOf(sequence).flows.get(sequence.account)?.served ?? 0;
  }

  #tierOf({ priority }: { readonly priority: number }): Tier {
    return this.#tiers[priority] as Tier;
  }

  #flowOf(sequence: Sequence): Flow {
    const { flows } = this.#tierOf(sequence);
    const known = flows.get(sequence.account);
    if (known !== undefined) return known;
    const flow = newFlow(sequence.priority, sequence.account);
    flows.set(flow.account, flow);
    return flow;
  }

  /** Changes what a flow is compared by, and finds its places again. */
  #change(flow: Flow, change: (flow: Flow) => void): void {
    const tier = this.#tierOf(flow);
    const wasActive = isActive(flow);
    const wasQueued = tier.waiting.has(flow);
    change(flow);
    if (!wasActive) this.#wake(tier, flow);
    else tier.active.update(flow);
    if (flow.waiting.size === 0 || this.#held.has(flow.account)) {
      tier.waiting.remove(flow);
      this.#byUrgency.remove(flow);
    } else if (wasQueued) {
      tier.waiting.update(flow);
      this.#byUrgency.update(flow);
    } else {
      tier.waiting.push(flow);
      this.#byUrgency.push(flow);
    }
    if (!isActive(flow)) this.#rest(tier, flow);
  }

  #wake(tier: Tier, flow: Flow): void {
    tier.idle.delete(flow);
    flow.served = Math.max(flow.served, tier.active.peek()?.served ?? 0);
    tier.active.push(flow);
  }

  /** Nothing of it waits or runs; who has been so for long is forgotten. */
  #rest(tier: Tier, flow: Flow): void {
    tier.active.remove(flow);
    tier.idle.delete(flow);
    tier.idle.set(flow, this.#scale.nowMs);
    for (const [each, sinceMs] of tier.idle) {
      if (each.served > 0 && !this.#scale.hasForgotten(sinceMs)) return;
      tier.idle.delete(each);
      tier.flows.delete(each.account);
    }
  }
}

/** Whose turn it is: the most urgent's tier decides, and within it who has had least, unless that would overtake too far. */
function nextOf<Each extends Queued>(byUrgency: Heap<Each>, tiers: readonly Heap<Each>[]): Each | undefined {
  const urgent = byUrgency.peek();
  if (urgent === undefined) return undefined;
  const fair = tiers[urgent.priority]?.peek() as Each;
  return urgencyOf(fair) - urgencyOf(urgent) > LONGEST_OVERTAKING ? urgent : fair;
}

/** The sequences of a flow in their order, taken without touching the flow. */
class Upcoming {
  readonly #rest: Iterator<Sequence>;
  #next: Sequence | undefined;

  constructor(waiting: Heap<Sequence>) {
    this.#rest = waiting.inOrder();
    this.#next = this.#rest.next().value;
  }

  peek(): Sequence | undefined {
    return this.#next;
  }

  take(): Sequence {
    const taken = this.#next as Sequence;
    this.#next = this.#rest.next().value;
    return taken;
  }
}

function isActive({ waiting, running }: Flow): boolean {
  return waiting.size > 0 || running > 0;
}
