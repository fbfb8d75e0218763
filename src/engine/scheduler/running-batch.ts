// Sequences that run and those that wait, with the moves between them: started, stopped, preempted. Counts what has happened,
// and what work a sequence is.

import { BLOCK_TOKENS } from '../../compute/backend.ts';
import type { BlockTables } from '../cache/block-tables.ts';
import { blocksFor } from '../cache/block-tables.ts';
import { Deferrals } from './deferrals.ts';
import type { Accounts } from './give-way.ts';
import type { Loading, Sequence } from './sequence.ts';
import { attendedTokens } from './step-plan.ts';
import type { TokenBudget } from './token-budget.ts';
import { WaitingQueue } from './waiting-queue.ts';

export class RunningBatch {
  readonly running: Sequence[] = [];
  readonly queue = new WaitingQueue();
  readonly deferrals = new Deferrals();
  readonly counters = {
    admissions: 0,
    preemptions: 0,
    prefixQueriedTokens: 0,
    prefixHitTokens: 0,
    computedTokens: 0,
  };
  readonly accounts: Accounts = {
    runningOf: (account) => this.queue.runningOf(account),
    servedOf: (sequence) => this.queue.servedOf(sequence),
  };
  readonly tables: BlockTables;
  readonly budget: TokenBudget;
  /** Whether texts are computed whole; see SchedulerOptions. */
  readonly wholeTexts: boolean;
  /** Most tokens of a step that are scored. */
  readonly scoredTokens: number;
  #arrivals = 0;
  #loads = 0;

  constructor(tables: BlockTables, budget: TokenBudget, wholeTexts: boolean, scoredTokens: number) {
    this.tables = tables;
    this.budget = budget;
    this.wholeTexts = wholeTexts;
    this.scoredTokens = scoredTokens;
  }

  get waitingCount(): number {
    return this.queue.size + this.deferrals.size;
  }

  /** All that wait, in no particular order. */
  *waiting(): Generator<Sequence> {
    yield* this.queue;
    for (const { sequence } of this.deferrals) yield sequence;
  }

  /** Those that wait, as they would be admitted if none ended and none came; `most` at most. */
  waitingInOrder(most: number): Sequence[] {
    const deferred: Sequence[] = [];
    for (const { sequence } of this.deferrals) {
      if (deferred.length === most) return deferred;
      deferred.push(sequence);
    }
    return [...deferred, ...this.queue.order(most - deferred.length, (each) => this.#workAhead(each))];
  }

  enqueue(sequence: Sequence): void {
    sequence.arrival = this.#arrivals++;
    sequence.state = 'waiting';
    this.queue.push(sequence);
  }

  /** Those of the running that are computed: the others wait for blocks that come up from a lower tier. */
  get computing(): readonly Sequence[] {
    return this.#loads === 0 ? this.running : this.running.filter(({ loading }) => loading === undefined);
  }

  /** Running sequences whose first blocks come up from a lower tier. */
  get loads(): number {
    return this.#loads;
  }

  /** Runs a sequence that has left the queue, on blocks that were found for it. */
  start(sequence: Sequence, matched: readonly number[]): void {
    this.tables.adopt(sequence, matched);
    if (sequence.state === 'waiting' && !this.wholeTexts) this.#countPrefix(sequence);
    this.#run(sequence, sequence.computed);
  }

  /** The same of one whose blocks are reserved and come up from a lower tier. */
  startLoading(sequence: Sequence, loading: Loading): void {
    sequence.loading = loading;
    this.#loads += 1;
    this.#run(sequence, loading.end * BLOCK_TOKENS);
  }

  /** Blocks that come up are there, as far as `end`. */
  loaded(sequence: Sequence, end: number): void {
    const before = sequence.computed;
    this.tables.fill(sequence, end);
    sequence.loadedTokens += sequence.computed - before;
    this.takeServed(sequence);
  }

  /** All have come up that will. One that cannot go on from where it is waits again, and computes them. */
  endLoading(sequence: Sequence): void {
    const { loading, recurrent, computed } = sequence;
    if (loading === undefined) throw new Error(`sequence ${sequence.id} loads nothing`);
    const isWhole = computed === loading.end * BLOCK_TOKENS && (recurrent?.written.length ?? 0) === 0;
    sequence.mayLoad = isWhole;
    if (!isWhole && recurrent !== undefined) {
      sequence.loadedTokens = 0;
      this.preempt(sequence);
      return;
    }
    this.#forgetLoading(sequence);
    sequence.startedFrom = computed;
    if (sequence.preemptions === 0) this.#countPrefix(sequence);
  }

  #forgetLoading(sequence: Sequence): void {
    if (sequence.loading === undefined) return;
    sequence.loading = undefined;
    this.#loads -= 1;
  }

  #countPrefix(sequence: Sequence): void {
    sequence.cachedTokens = Math.min(sequence.computed, sequence.promptLength);
    this.counters.prefixQueriedTokens += sequence.promptLength;
    this.counters.prefixHitTokens += sequence.cachedTokens;
  }

  /** `known`: tokens of it that need not be computed. */
  #run(sequence: Sequence, known: number): void {
    this.counters.admissions += 1;
    sequence.state = 'running';
    sequence.startedFrom = sequence.computed;
    this.running.push(sequence);
    this.queue.started(sequence, this.workOf(known, sequence.length - known, Number.POSITIVE_INFINITY));
  }

  /** Those that waited for blocks which the sequence has by now are queued again. */
  takeServed(sequence: Sequence): void {
    for (const waiter of this.deferrals.takeServed(sequence)) this.queue.push(waiter);
  }

  /** Sends a running sequence back to the queue. It keeps its tokens and its age. */
  preempt(sequence: Sequence): void {
    if (sequence.state !== 'running') throw new Error(`sequence ${sequence.id} is ${sequence.state}`);
    sequence.reached = Math.max(sequence.reached, sequence.computed);
    this.#stop(sequence);
    sequence.state = 'preempted';
    sequence.preemptions += 1;
    this.counters.preemptions += 1;
    this.queue.push(sequence);
  }

  /** Ends a sequence in whatever state. */
  finish(sequence: Sequence): void {
    if (sequence.state === 'running') this.#stop(sequence);
    else if (this.queue.has(sequence)) this.queue.remove(sequence);
    else this.deferrals.remove(sequence);
    sequence.state = 'finished';
  }

  /** Blocks that running sequences will need for the tokens they have. */
  outstandingBlocks(): number {
    return this.running.reduce((sum, sequence) => sum + outstandingBlocks(sequence), 0);
  }

  /** Of `count` tokens of one sequence after `start` others, in a step of `sequences` of them. */
  workOf(start: number, count: number, sequences: number): number {
    const attended = this.wholeTexts ? count * count : attendedTokens(start, count);
    return this.budget.costModel.workOf(count, attended, sequences);
  }

  /** Takes a sequence off the batch; those that waited for its blocks are queued again. */
  #stop(sequence: Sequence): void {
    this.#forgetLoading(sequence);
    this.running.splice(this.running.lastIndexOf(sequence), 1);
    this.queue.stopped(sequence);
    this.tables.release(sequence);
    if (sequence.kvShare !== undefined) this.queue.resume(sequence.account);
    for (const waiter of this.deferrals.takeAll(sequence)) this.queue.push(waiter);
  }

  /** Of the tokens that a sequence has and are not computed. */
  #workAhead({ computed, remaining }: Sequence): number {
    return this.workOf(computed, remaining, Number.POSITIVE_INFINITY);
  }
}

export function outstandingBlocks({ length, blocks }: Sequence): number {
  return blocksFor(length) - blocks.length;
}
