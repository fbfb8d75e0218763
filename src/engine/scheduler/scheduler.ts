// Decides who computes how many tokens in each step. One cycle: `plan`, the engine computes and samples,
// `commit`, then the engine `finish`es what ended. Knows no clock, no sampling and no backend.
//
// Sequences go by rank: their tier and age, or those of a more urgent sequence that waits for them. It says who computes first,
// who is admitted first and, from the other end, who is preempted. Within a tier the account that was served least goes first
// (waiting-queue.ts), and accounts that run several sequences give way to one that runs none (give-way.ts). The most urgent
// sequence is preempted last, so every one ends.

import { BLOCK_TOKENS } from '../../compute/backend.ts';
import { BlockTables, blocksFor } from '../cache/block-tables.ts';
import { Admission } from './admission.ts';
import { BlockLimits } from './block-limits.ts';
import { furtherShare, leadingShare, longestPrefill, MINIMUM_SHARE, prefillOrder } from './chunk.ts';
import type { Deferral } from './deferrals.ts';
import { foreseen } from './foreseen-plan.ts';
import type { LowerTiers } from './lower-tiers.ts';
import { decodeLoad, PartialPlan } from './partial-plan.ts';
import { RunningBatch } from './running-batch.ts';
import type { Sequence } from './sequence.ts';
import { type BlockDemand, blockStats, queueStats, runningStats, type SchedulerStats } from './stats.ts';
import type { Propose, StepPlan } from './step-plan.ts';
import { type BudgetOptions, TokenBudget } from './token-budget.ts';

export interface SchedulerOptions {
  /** The most blocks there can ever be. */
  readonly blockCount: number;
  /** How many of them may hold memory at the start; see `allow`. Default: all. */
  readonly blockLimit?: number;
  readonly budget: BudgetOptions;
  /** Most sequences that run at once. Default: what memory and budget allow. */
  readonly maxBatchSize?: number;
  /** Default 0.85. */
  readonly watermark?: number;
  /** Slots for what layers without KV remember, where the model has such. */
  readonly stateSlots?: number | undefined;
  /**
   * Attention is bidirectional: a text is computed in one step, whatever its length, and what is stored of
   * it lives for that step.
   */
  readonly wholeTexts?: boolean | undefined;
  /** Where blocks may come up from that left memory. */
  readonly lowerTiers?: LowerTiers | undefined;
  /** Most tokens of a step that are scored: each has a row of logits. Default 64. */
  readonly scoredTokens?: number;
}

const DEFAULT_SCORED_TOKENS = 64;

/** `tooLong`: what has to be shorter to be accepted. */
export type AddResult =
  | { readonly accepted: true }
  | { readonly accepted: false; readonly reason: string; readonly tooLong: 'prompt' | 'answer' };

export class Scheduler {
  readonly tables: BlockTables;
  readonly budget: TokenBudget;
  /** Sequences that may run at once. */
  readonly #lanes: number;
  readonly #batch: RunningBatch;
  readonly #blocks: BlockLimits;
  readonly #admission: Admission;
  #planned: StepPlan | undefined;
  /** Those that have loaded since the last step with anything to compute. */
  #loaded: Sequence[] = [];

  constructor(options: SchedulerOptions) {
    const wholeTexts = options.wholeTexts === true;
    this.tables = new BlockTables(options.blockCount, options.stateSlots, !wholeTexts);
    this.budget = new TokenBudget(options.budget);
    this.#lanes = Math.min(
      options.maxBatchSize ?? Number.POSITIVE_INFINITY,
      this.budget.maxStepTokens,
      this.tables.recurrentStates?.mostRunning ?? Number.POSITIVE_INFINITY,
    );
    if (!(this.#lanes >= 1)) {
      throw new RangeError(`maxBatchSize must be at least 1, not ${options.maxBatchSize}`);
    }
    const { scoredTokens = DEFAULT_SCORED_TOKENS } = options;
    this.#batch = new RunningBatch(this.tables, this.budget, wholeTexts, scoredTokens);
    this.#blocks = new BlockLimits(this.#batch, this.#lanes, options.watermark);
    const { lowerTiers } = options;
    this.#admission = new Admission(this.#batch, this.#blocks, { lanes: this.#lanes, lowerTiers });
    this.allow(options.blockLimit ?? options.blockCount);
  }

  /** What is not committed yet. */
  get planned(): StepPlan | undefined {
    return this.#planned;
  }

  get running(): readonly Sequence[] {
    return this.#batch.running;
  }

  get waitingCount(): number {
    return this.#batch.waitingCount;
  }

  /** All that wait, in no particular order. */
  waiting(): Iterable<Sequence> {
    return this.#batch.waiting();
  }

  /** Those that wait, as they would be admitted if none ended and none came; `most` at most. */
  waitingInOrder(most: number): Sequence[] {
    return this.#batch.waitingInOrder(most);
  }

  /** Sequences that may run at once, and blocks that they may hold when another is admitted. */
  get capacity(): { readonly lanes: number; readonly blocks: number } {
    return { lanes: this.#lanes, blocks: this.#blocks.watermarkBlocks() };
  }

  /** Running sequences of the same account and tier, as the waiting queue counts them. */
  runningOfAccount(sequence: Sequence): number {
    return this.#batch.queue.runningOfAccount(sequence);
  }

  /** Those among the waiting that wait for a prefix which a running one computes. */
  deferred(): Iterable<Deferral> {
    return this.#batch.deferrals;
  }

  /** Queues a new sequence, or refuses one that could not run even alone. */
  add(sequence: Sequence): AddResult {
    const result = this.accepts(sequence);
    if (result.accepted) this.#batch.enqueue(sequence);
    return result;
  }

  /** Whether a sequence could run alone. */
  accepts(sequence: Sequence): AddResult {
    if (sequence.state !== 'new') throw new Error(`sequence ${sequence.id} was added before`);
    // The last token ends the sequence, so its KV are never needed.
    const needed = blocksFor(sequence.maxTokens - 1);
    const { blockCount } = this.tables.pool;
    if (needed > blockCount) {
      const reason = `${sequence.maxTokens} tokens need ${needed} blocks of ${BLOCK_TOKENS} tokens, but the KV cache has ${blockCount}`;
      return { accepted: false, reason, tooLong: tooLong(sequence, blockCount) };
    }
    const { kvShare } = sequence;
    const share = kvShare === undefined ? blockCount : Math.max(1, Math.floor(kvShare * blockCount));
    if (needed > share) {
      const reason = `${sequence.maxTokens} tokens need ${needed} blocks of ${BLOCK_TOKENS} tokens, but this key may hold ${share} of the KV cache's ${blockCount} (a kvShare of ${kvShare}); ask for fewer tokens`;
      return { accepted: false, reason, tooLong: tooLong(sequence, share) };
    }
    return { accepted: true };
  }

  /**
   * From now on at most `blocks` hold memory. Free ones lose theirs at once; where running sequences hold more,
   * the next plan preempts the least urgent.
   */
  allow(blocks: number): void {
    this.#blocks.allow(blocks);
  }

  /** `blocks`: free ones that something other than a sequence waits for; 0 for none. */
  want(blocks: number): void {
    this.#blocks.want(blocks);
  }

  /** What was last allowed. */
  get grantedBlocks(): number {
    return this.#blocks.granted;
  }

  /** The device has no memory for more blocks than these, whatever is allowed; undefined where it has not refused any. */
  limitToDevice(blocks: number | undefined): void {
    this.#blocks.limitToDevice(blocks);
  }

  get isLimitedByDevice(): boolean {
    return this.#blocks.isLimitedByDevice;
  }

  /** Blocks that may hold memory once the next plan is made, at most. */
  mostHeldAfterPlan(): number {
    return this.#blocks.mostHeldAfterPlan();
  }

  /** Who is admitted next, and whether it waits for want of blocks. */
  get next(): { readonly sequence: Sequence | undefined; readonly short: boolean } {
    return { sequence: this.#batch.queue.peek(), short: this.#blocks.short };
  }

  /** Whether the next one waits for blocks to load into. */
  get waitsForGrant(): boolean {
    return this.#blocks.short && (this.#batch.queue.peek()?.grantWaits ?? 0) > 0;
  }

  /** Time that a step has for towers, beside the sequences that run, and where prompts want some, too. */
  get towerMs(): number {
    const { computing } = this.#batch;
    const decodes = decodeLoad(computing);
    return this.budget.towerMs(decodes, decodes.sequences < computing.length || this.waitingCount > 0);
  }

  /** What was computed for a sequence before it came here counts as work of its account. */
  charge(sequence: Sequence, ms: number): void {
    this.#batch.queue.computed(sequence, ms);
    this.#batch.queue.settle();
  }

  /** As of the last plan. */
  demand(): BlockDemand {
    return this.#blocks.demand();
  }

  /** Ends a sequence in whatever state, finished or cancelled, also during a step. */
  finish(sequence: Sequence): void {
    this.#batch.finish(sequence);
  }

  /** Blocks of a sequence that come up from a lower tier are there, as far as `end`. Between steps. */
  loaded(sequence: Sequence, end: number): void {
    this.#batch.loaded(sequence, end);
  }

  /** All of them have come up that will: the sequence computes the rest. */
  endLoading(sequence: Sequence): void {
    this.#batch.endLoading(sequence);
    if (sequence.state === 'running') this.#loaded.push(sequence);
  }

  /** Running sequences whose first blocks come up. */
  get loads(): number {
    return this.#batch.loads;
  }

  /** Sends a running sequence back to the queue. It keeps its tokens and its age. */
  preempt(sequence: Sequence): void {
    this.#batch.preempt(sequence);
  }

  /**
   * The next step. Running sequences come first, then admission, then drafts, which take what is left; each plan needs
   * its commit. `nowMs` is of the clock by which sequences were enqueued; `towerMs` of the step's time have gone into towers.
   */
  plan(nowMs: number, propose?: Propose, towerMs = 0): StepPlan {
    if (this.#planned !== undefined) throw new Error('the last plan was not committed');
    this.#batch.queue.advance(nowMs);
    this.#batch.running.sort((a, b) => a.rank - b.rank || a.arrival - b.arrival);
    const partial = new PartialPlan(this.#batch);
    const { evictions } = this.tables.pool;
    partial.keepToLimit();
    const load = this.#batch.wholeTexts ? this.#admission.admitTexts(partial) : this.#share(partial, towerMs);
    if (propose !== undefined) partial.addDrafts(propose);
    this.#blocks.planned(partial.isShort, this.tables.pool.evictions > evictions);
    const loaded = this.#loaded.filter(({ state }) => state === 'running');
    this.#planned = partial.finished(load, loaded);
    if (partial.items.length > 0) this.#loaded = [];
    return this.#planned;
  }

  /**
   * The step after a planned one if nobody comes, ends or has a draft: a token of every sequence, in blocks that are taken from
   * nobody. Undefined where it will be another.
   */
  foresee({ items }: StepPlan): StepPlan | undefined {
    // Recurrent states are given their slots when a step is planned.
    if (this.waitingCount > 0 || this.tables.recurrentStates !== undefined) return undefined;
    return foreseen(items, this.tables);
  }

  /** Hands the step's tokens out, to those that run and then to those that wait. */
  #share(partial: PartialPlan, towerMs: number): undefined {
    const { computing } = this.#batch;
    const decodes = decodeLoad(computing);
    const left = this.budget.prefillTokens(decodes, longestPrefill(computing), towerMs);
    const prefilling = decodes.sequences < computing.length || this.#admission.guestWaits();
    partial.left = prefilling ? Math.max(left, this.budget.prefillFloor(decodes)) : left;
    this.#continueRunning(partial);
    this.#continueShorter(partial);
    // What was just preempted must not come straight back.
    if (partial.preempted.length === partial.overShare) this.#admission.admit(partial, left > 0);
    partial.spendRest();
  }

  /** Every decode, and a chunk of the most urgent prompt. */
  #continueRunning(partial: PartialPlan): void {
    const { computing, accounts } = this.#batch;
    const [leader, ...others] = prefillOrder(computing, accounts.servedOf);
    for (const sequence of [...computing]) {
      // It may have been preempted for one before it.
      if (sequence.state !== 'running') continue;
      if (sequence.remaining === 1) partial.place(sequence, 1);
      if (sequence !== leader) continue;
      const share = leadingShare(partial.left, others.length > 0 || this.#admission.couldAdmit(1));
      partial.placeChunk(sequence, share);
    }
  }

  /** Chunks of the prompts that are shorter than the most urgent one, as far as free blocks go. */
  #continueShorter(partial: PartialPlan): void {
    const { computing, accounts } = this.#batch;
    const [, ...shorter] = prefillOrder(computing, accounts.servedOf);
    const kept = this.#admission.couldAdmit(1) && this.#admission.guestWaits() ? MINIMUM_SHARE : 0;
    for (const [i, sequence] of shorter.entries()) {
      const lack = this.tables.lackFor(sequence, sequence.leastChunk);
      const mayTake = this.tables.pool.freeCount >= lack && this.tables.mayTakeBlock(sequence, lack);
      if (lack > 0 && !mayTake) continue;
      const others = i < shorter.length - 1 || this.#admission.couldAdmit(1);
      const left = Math.max(0, partial.left - kept);
      partial.placeChunk(sequence, furtherShare(left, sequence.remaining, others));
    }
  }

  /**
   * Takes a step's results: for each item that samples, in the order of the items, the next token, and after every draft token
   * that was accepted one more; those of an answer's end are the last. Items of sequences that ended during the step are
   * passed over. `stepMs` teaches the cost model.
   */
  commit(plan: StepPlan, newTokens: readonly (readonly number[])[], stepMs: number): void {
    if (plan !== this.#planned) throw new Error('only the last plan can be committed, and once');
    const samplingItems = plan.items.reduce((count, item) => count + Number(item.samples), 0);
    if (newTokens.length !== samplingItems) {
      throw new Error(`the plan samples ${samplingItems}, got tokens of ${newTokens.length}`);
    }
    this.#planned = undefined;
    let sampled = 0;
    for (const { sequence, start, count, draft, samples } of plan.items) {
      const tokens = samples ? (newTokens[sampled++] as readonly number[]) : [];
      if (sequence.state !== 'running') continue;
      const most = 1 + draft.tokens.length;
      if (samples && !(tokens.length > 0 && tokens.length <= most)) {
        throw new Error(`${most - 1} draft tokens of ${sequence.id} gave ${tokens.length} tokens`);
      }
      for (const token of tokens) sequence.append(token);
      const rejected = samples ? most - tokens.length : 0;
      this.#batch.queue.computed(sequence, this.#batch.workOf(start, count - rejected, plan.load.sequences));
      this.tables.advance(sequence, count - rejected);
      if (rejected > 0) this.tables.trim(sequence);
      this.#batch.takeServed(sequence);
    }
    this.#batch.queue.settle();
    this.#batch.counters.computedTokens += plan.load.tokens;
    this.budget.observe(plan.load, stepMs);
  }

  /** `others` wait, too, and will be queued. */
  stats(nowMs: number, others: Iterable<Sequence> = []): SchedulerStats {
    return {
      queues: queueStats([...this.waiting(), ...others], nowMs),
      deferred: this.#batch.deferrals.size,
      running: this.running.map((sequence) => runningStats(sequence, nowMs)),
      blocks: blockStats(this.tables),
      counters: { ...this.#batch.counters },
    };
  }
}

function tooLong({ promptLength }: Sequence, blocks: number): 'prompt' | 'answer' {
  return blocksFor(promptLength) > blocks ? 'prompt' : 'answer';
}
