// Sequences that run and those that wait, with the moves between them: started, stopped, preempted. Counts what has happened,
// and what work a sequence is.

import type { BlockTables } from '../cache/block-tables.ts';
import { blocksFor } from '../cache/block-tables.ts';
import { Deferrals } from './deferrals.ts';
import type { Accounts } from './give-way.ts';
import type { Sequence } from './sequence.ts';
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

  /** Runs a sequence that has left the queue, on blocks that were found for it. */
  start(sequence: Sequence, matched: readonly number[]): void {
    this.tables.adopt(sequence, matched);
    if (sequence.state === 'waiting' && !this.wholeTexts) {
      sequence.cachedTokens = Math.min(sequence.computed, sequence.promptLength);
      this.counters.prefixQueriedTokens += sequence.promptLength;
      this.counters.prefixHitTokens += sequence.cachedTokens;
    }
    this.counters.admissions += 1;
    sequence.state = 'running';
    sequence.startedFrom = sequence.computed;
    this.running.push(sequence);
    this.queue.started(sequence, this.#workAhead(sequence));
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
