// Decides who computes how many tokens in each step. One cycle: `plan`, the engine computes and samples,
// `commit`, then the engine `finish`es what ended. Knows no clock, no sampling and no backend.
//
// One order, the static key, rules tiers and ages: who computes first, who is admitted first, and, from the other end, who is
// preempted. Within a tier the account that has had least work goes first (see waiting-queue.ts), and accounts that run several
// make place for one that runs nothing (see give-way.ts). The most urgent sequence is preempted last, so every one ends.

import { BLOCK_TOKENS } from '../../compute/backend.ts';
import { BlockTables, blocksFor, reusableBlocks } from '../cache/block-tables.ts';
import { notShared, prefixMiss } from '../cache/prefix-miss.ts';
import { chunk, furtherShare, leadingShare, MINIMUM_SHARE } from './chunk.ts';
import { type Deferral, Deferrals } from './deferrals.ts';
import { noDraft, shortened } from './draft.ts';
import { type Accounts, leastEntitled, makePlace } from './give-way.ts';
import {
  besideText,
  decodeLoad,
  finishedPlan,
  loadOf,
  longestPrefill,
  noLoad,
  type PartialPlan,
  prefillOrder,
  takeOut,
} from './partial-plan.ts';
import { pendingPrefix } from './pending-prefix.ts';
import type { Sequence } from './sequence.ts';
import { type BlockDemand, blockStats, queueStats, runningStats, type SchedulerStats } from './stats.ts';
import { attendedTokens, type Propose, type StepLoad, type StepPlan } from './step-plan.ts';
import { type BudgetOptions, TokenBudget } from './token-budget.ts';
import { WaitingQueue } from './waiting-queue.ts';

/** Admission stops where more than this share of the pool is in use or promised. */
const WATERMARK = 0.85;

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
   * Tokens of the model see those behind them: a text is computed in one step, whatever its length, and what is stored of
   * it lives for that step.
   */
  readonly wholeTexts?: boolean | undefined;
}

/** `tooLong`: what has to be shorter to be accepted. */
export type AddResult =
  | { readonly accepted: true }
  | { readonly accepted: false; readonly reason: string; readonly tooLong: 'prompt' | 'answer' };

export class Scheduler {
  readonly tables: BlockTables;
  readonly budget: TokenBudget;
  readonly #limit: number;
  readonly #watermark: number;
  readonly #wholeTexts: boolean;
  readonly #running: Sequence[] = [];
  readonly #queue = new WaitingQueue();
  readonly #deferrals = new Deferrals();
  readonly #counters = {
    admissions: 0,
    preemptions: 0,
    prefixQueriedTokens: 0,
    prefixHitTokens: 0,
    computedTokens: 0,
  };
  readonly #accounts: Accounts = {
    runningOf: (account) => this.#queue.runningOf(account),
    servedOf: (sequence) => this.#queue.servedOf(sequence),
  };
  #arrivals = 0;
  /** Blocks that may hold memory, as it was told; and those that the device has memory for, where it refused more. */
  #granted = 0;
  #deviceBlocks: number | undefined;
  /** The last plan could not have all the blocks it wanted. */
  #short = false;
  /** More blocks would serve: the last plan was short, or took blocks from the prefix cache. */
  #pressed = false;
  #planned: StepPlan | undefined;

  constructor(options: SchedulerOptions) {
    this.#wholeTexts = options.wholeTexts === true;
    this.tables = new BlockTables(options.blockCount, options.stateSlots, !this.#wholeTexts);
    this.budget = new TokenBudget(options.budget);
    this.#limit = Math.min(
      options.maxBatchSize ?? Number.POSITIVE_INFINITY,
      this.budget.maxStepTokens,
      this.tables.recurrentStates?.mostRunning ?? Number.POSITIVE_INFINITY,
    );
    this.#watermark = options.watermark ?? WATERMARK;
    if (!(this.#limit >= 1)) {
      throw new RangeError(`maxBatchSize must be at least 1, not ${options.maxBatchSize}`);
    }
    if (!(this.#watermark >= 0 && this.#watermark <= 1)) {
      throw new RangeError(`the watermark must be between 0 and 1, not ${options.watermark}`);
    }
    this.allow(options.blockLimit ?? options.blockCount);
  }

  get running(): readonly Sequence[] {
    return this.#running;
  }

  get waitingCount(): number {
    return this.#queue.size + this.#deferrals.size;
  }

  /** All that wait, in no particular order. */
  *waiting(): Generator<Sequence> {
    yield* this.#queue;
    for (const { sequence } of this.#deferrals) yield sequence;
  }

  /** Those that wait, as they would be admitted if none ended and none came; `most` at most. */
  waitingInOrder(most: number): Sequence[] {
    const deferred: Sequence[] = [];
    for (const { sequence } of this.#deferrals) {
      if (deferred.length === most) return deferred;
      deferred.push(sequence);
    }
    return [...deferred, ...this.#queue.order(most - deferred.length, (each) => this.#workAhead(each))];
  }

  /** Sequences that may run at once, and blocks that they may hold when another is admitted. */
  get capacity(): { readonly lanes: number; readonly blocks: number } {
    return { lanes: this.#limit, blocks: this.#watermarkBlocks() };
  }

  /** Running sequences of the same account and tier, as the waiting queue counts them. */
  runningBeside(sequence: Sequence): number {
    return this.#queue.runningBeside(sequence);
  }

  /** Those among the waiting that wait for a prefix which a running one computes. */
  deferred(): Iterable<Deferral> {
    return this.#deferrals;
  }

  /** Queues a new sequence, or refuses one that could not run even alone. */
  add(sequence: Sequence): AddResult {
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
    this.#enqueue(sequence);
    return { accepted: true };
  }

  /**
   * From now on at most so many blocks hold memory. Free ones are dropped at once; where running sequences hold more,
   * the next plan preempts the least urgent.
   */
  allow(blocks: number): void {
    if (!(Number.isInteger(blocks) && blocks >= 0)) {
      throw new RangeError(`an engine may hold a whole number of blocks, not ${blocks}`);
    }
    this.#granted = Math.min(blocks, this.tables.pool.blockCount);
    this.#applyLimit();
  }

  /** What `allow` was last told. */
  get grantedBlocks(): number {
    return this.#granted;
  }

  /** The device has no memory for more blocks than these, whatever is allowed; undefined where it has not refused any. */
  limitToDevice(blocks: number | undefined): void {
    this.#deviceBlocks = blocks;
    this.#applyLimit();
  }

  get isLimitedByDevice(): boolean {
    return this.#deviceBlocks !== undefined;
  }

  /** Blocks that may hold memory once the next plan is made, at most. */
  mostHeldAfterPlan(): number {
    const { heldCount, usedCount, cachedFreeCount, limit } = this.tables.pool;
    return Math.max(heldCount, Math.min(limit, usedCount + cachedFreeCount + this.#mostTakenBlocks()));
  }

  /** Who is admitted next, and whether it waits for want of blocks. */
  get next(): { readonly sequence: Sequence | undefined; readonly short: boolean } {
    return { sequence: this.#queue.peek(), short: this.#short };
  }

  /** As of the last plan. */
  demand(): BlockDemand {
    const { heldCount: held, usedCount: used } = this.tables.pool;
    const limit = this.#granted;
    // More would not help where the device has no memory for what is allowed.
    const wanted = this.#pressed && !this.isLimitedByDevice ? this.#wantedBlocks() : limit;
    const required = blocksFor((this.#running[0] ?? this.#queue.peek())?.length ?? 0);
    return { limit, held, used, wanted, short: this.#short, required };
  }

  /** Ends a sequence in whatever state, finished or cancelled, also during a step. */
  finish(sequence: Sequence): void {
    if (sequence.state === 'running') this.#stop(sequence);
    else if (this.#queue.has(sequence)) this.#queue.remove(sequence);
    else this.#deferrals.remove(sequence);
    sequence.state = 'finished';
  }

  /** Sends a running sequence back to the queue. It keeps its tokens and its age. */
  preempt(sequence: Sequence): void {
    if (sequence.state !== 'running') throw new Error(`sequence ${sequence.id} is ${sequence.state}`);
    sequence.reached = Math.max(sequence.reached, sequence.computed);
    this.#stop(sequence);
    sequence.state = 'preempted';
    sequence.preemptions += 1;
    this.#counters.preemptions += 1;
    this.#queue.push(sequence);
  }

  /**
   * The next step. Running sequences come first, then admission, then drafts, which take what is left; each plan needs
   * its commit. `nowMs` is of the clock by which sequences were enqueued.
   */
  plan(nowMs: number, propose?: Propose): StepPlan {
    if (this.#planned !== undefined) throw new Error('the last plan was not committed');
    this.#queue.advance(nowMs);
    this.#running.sort((a, b) => a.rank - b.rank || a.arrival - b.arrival);
    const partial: PartialPlan = {
      items: [],
      admitted: [],
      preempted: [],
      overShare: 0,
      notForBlocks: 0,
      left: 0,
      hasChunk: false,
      short: false,
    };
    const { evictions } = this.tables.pool;
    this.#keepToLimit(partial);
    const load = this.#wholeTexts ? this.#admitTexts(partial) : this.#share(partial);
    if (propose !== undefined) this.#addDrafts(partial, propose);
    this.#short = partial.short || partial.preempted.length > partial.overShare + partial.notForBlocks;
    this.#pressed = this.#short || this.tables.pool.evictions > evictions;
    this.#planned = finishedPlan(partial, this.tables.recurrentStates, load);
    return this.#planned;
  }

  /** Hands the step's tokens out, to those that run and then to those that wait. */
  #share(partial: PartialPlan): undefined {
    const decodes = decodeLoad(this.#running);
    const left = this.budget.beside(decodes, longestPrefill(this.#running));
    const prefilling = decodes.sequences < this.#running.length || this.#guestWaits();
    partial.left = prefilling ? Math.max(left, this.budget.floorBeside(decodes)) : left;
    this.#continueRunning(partial);
    this.#continueShorter(partial);
    // What was just preempted must not come straight back.
    if (partial.preempted.length === partial.overShare) this.#admit(partial, left > 0);
    this.#spendRest(partial);
  }

  /**
   * Admits whole texts in the queue's order, as many as the budget holds and there are blocks for: all are given back
   * after the step. A text that is larger than the budget goes alone.
   */
  #admitTexts(partial: PartialPlan): StepLoad {
    let load = noLoad;
    while (this.#running.length < this.#limit) {
      const sequence = this.#queue.peek();
      if (sequence === undefined) break;
      const { length } = sequence;
      const next = besideText(load, length);
      if (partial.items.length > 0 && !this.budget.holds(next)) break;
      if (!this.#holdToShare(sequence, blocksFor(length))) continue;
      if (blocksFor(length) > this.tables.pool.freeCount) {
        partial.short = true;
        break;
      }
      this.#queue.remove(sequence);
      sequence.miss ??= notShared;
      this.#start(sequence, []);
      partial.admitted.push(sequence);
      partial.items.push({ sequence, count: this.tables.grow(sequence, length), draft: noDraft });
      load = next;
    }
    return load;
  }

  /**
   * Takes a step's results: for each item that samples, in the order of the items, the next token, and after every draft token
   * that was accepted one more; those of an answer's end are the last. Items of sequences that ended during the step are
   * passed over. `stepMs` teaches the cost model.
   */
  commit(plan: StepPlan, newTokens: readonly (readonly number[])[], stepMs: number): void {
    if (plan !== this.#planned) throw new Error('only the last plan can be committed, and once');
    const samples = plan.items.reduce((count, item) => count + Number(item.samples), 0);
    if (newTokens.length !== samples) {
      throw new Error(`the plan samples ${samples}, got tokens of ${newTokens.length}`);
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
      this.#queue.computed(sequence, this.#workOf(start, count - rejected, plan.load.sequences));
      this.tables.advance(sequence, count - rejected);
      if (rejected > 0) this.tables.trim(sequence);
      for (const waiter of this.#deferrals.takeServed(sequence)) this.#queue.push(waiter);
    }
    this.#queue.settle();
    this.#counters.computedTokens += plan.load.tokens;
    this.budget.observe(plan.load, stepMs);
  }

  stats(nowMs: number): SchedulerStats {
    return {
      queues: queueStats(this.waiting(), nowMs),
      deferred: this.#deferrals.size,
      running: this.#running.map((sequence) => runningStats(sequence, nowMs)),
      blocks: blockStats(this.tables),
      counters: { ...this.#counters },
    };
  }

  #enqueue(sequence: Sequence): void {
    sequence.arrival = this.#arrivals++;
    sequence.state = 'waiting';
    this.#queue.push(sequence);
  }

  /** Takes a sequence off the batch; who waited for its blocks looks again. */
  #stop(sequence: Sequence): void {
    this.#running.splice(this.#running.lastIndexOf(sequence), 1);
    this.#queue.stopped(sequence);
    this.tables.release(sequence);
    if (sequence.kvShare !== undefined) this.#queue.resume(sequence.account);
    for (const waiter of this.#deferrals.takeAll(sequence)) this.#queue.push(waiter);
  }

  /** Gives blocks back that may be held no longer. */
  #keepToLimit(partial: PartialPlan): void {
    const { pool } = this.tables;
    while (pool.usedCount > pool.limit) this.#preemptLast(partial);
  }

  #preemptLast(partial: PartialPlan): Sequence {
    const victim = leastEntitled(this.#running, this.#accounts);
    this.#giveWay(partial, victim);
    return victim;
  }

  /** The account's least urgent sequence makes place for another of its own, which runs beside it. */
  #preemptOwn(partial: PartialPlan, { account }: Sequence): Sequence {
    const victim = this.#running.findLast((each) => each.account === account) as Sequence;
    this.#giveWay(partial, victim);
    partial.overShare += 1;
    this.#queue.hold(account);
    return victim;
  }

  #giveWay(partial: PartialPlan, victim: Sequence): void {
    takeOut(partial, victim);
    this.preempt(victim);
    partial.preempted.push(victim);
  }

  /** Every decode, and a chunk of the most urgent prompt. */
  #continueRunning(partial: PartialPlan): void {
    const [leader, ...others] = prefillOrder(this.#running, this.#accounts.servedOf);
    for (const sequence of [...this.#running]) {
      // It may have been preempted for one before it.
      if (sequence.state !== 'running') continue;
      if (sequence.remaining === 1) this.#place(partial, sequence, 1);
      if (sequence !== leader) continue;
      this.#placeChunk(
        partial,
        sequence,
        leadingShare(partial.left, others.length > 0 || this.#couldAdmit(1)),
      );
    }
  }

  /** Chunks of the prompts that are shorter than the most urgent one, as far as free blocks go. */
  #continueShorter(partial: PartialPlan): void {
    const [, ...shorter] = prefillOrder(this.#running, this.#accounts.servedOf);
    const kept = this.#couldAdmit(1) && this.#guestWaits() ? MINIMUM_SHARE : 0;
    for (const [i, sequence] of shorter.entries()) {
      const mayTake = this.tables.pool.freeCount > 0 && this.tables.mayTake(sequence);
      if (!mayTake && !this.tables.hasRoom(sequence)) continue;
      const others = i < shorter.length - 1 || this.#couldAdmit(1);
      const left = Math.max(0, partial.left - kept);
      this.#placeChunk(partial, sequence, furtherShare(left, sequence.remaining, others));
    }
  }

  #placeChunk(partial: PartialPlan, sequence: Sequence, share: number): void {
    if (share === 0) return;
    partial.left -= this.#place(partial, sequence, chunk(sequence.computed, sequence.remaining, share));
    partial.hasChunk = true;
  }

  /** Puts up to `tokens` tokens of a running sequence into the step, preempting where no block is left. */
  #place(partial: PartialPlan, sequence: Sequence, tokens: number): number {
    while (!this.tables.hasRoom(sequence) && !this.tables.mayTake(sequence)) {
      if (this.#preemptOwn(partial, sequence) === sequence) return 0;
    }
    while (this.tables.pool.freeCount === 0 && !this.tables.hasRoom(sequence)) {
      if (this.#preemptLast(partial) === sequence) return 0;
    }
    const count = this.tables.grow(sequence, tokens);
    if (count < tokens && this.tables.mayTake(sequence)) partial.short = true;
    partial.items.push({ sequence, count, draft: noDraft });
    return count;
  }

  /** Whether `count` of those that wait would find a place, as far as can be told without looking at them. */
  #couldAdmit(count: number): boolean {
    if (this.#queue.size < count) return false;
    const isFree =
      this.#running.length + count <= this.#limit && this.tables.pool.usedCount < this.#watermarkBlocks();
    return isFree || (this.#running.length > this.#queue.runningAccounts && this.#guestWaits());
  }

  /** Whether the next is of an account that runs nothing: tokens are kept for it, and who runs several makes place. */
  #guestWaits(): boolean {
    const next = this.#queue.peek();
    return next !== undefined && this.#queue.runningOf(next.account) === 0;
  }

  /**
   * Admits in the queue's order: nothing overtakes the first that does not fit, or large requests would wait for
   * ever. Those that wait for a prefix which is being computed step aside. Where decodes take all of the step's time, which is
   * not `roomy`, only guests are admitted: sequences of accounts that run nothing.
   */
  #admit(partial: PartialPlan, roomy: boolean): void {
    for (;;) {
      const sequence = this.#queue.peek();
      // What was just preempted must not come straight back.
      if (sequence === undefined || partial.preempted.includes(sequence)) return;
      const isGuest = this.#queue.runningOf(sequence.account) === 0;
      const isFree = roomy && partial.left > 0 && this.#running.length < this.#limit;
      if (!isFree && !isGuest) return;
      const found = this.tables.match(sequence);
      const pending = pendingPrefix(sequence, found, this.#running);
      if (pending !== undefined) {
        this.#queue.remove(sequence);
        this.#deferrals.add({ sequence, ...pending });
        this.tables.recurrentStates?.wantCheckpoint(pending.owner, pending.blocks * BLOCK_TOKENS);
        continue;
      }
      const matched = this.tables.resumable(found);
      if (!this.#holdToShare(sequence, this.tables.addedBlocks(sequence, matched))) continue;
      if (!this.#hasPlace(partial, sequence, matched, isGuest)) return;
      const share = this.#admissionShare(partial, sequence.length - matched.length * BLOCK_TOKENS, isGuest);
      if (share <= 0) return;
      this.#queue.remove(sequence);
      sequence.miss ??= prefixMiss(this.tables.prefixes, sequence, found, matched);
      // Where it parts from others, and where one like it would.
      for (const blocks of [found.length, reusableBlocks(sequence)]) {
        this.tables.recurrentStates?.wantCheckpoint(sequence, blocks * BLOCK_TOKENS);
      }
      this.#start(sequence, matched);
      partial.admitted.push(sequence);
      this.#placeChunk(partial, sequence, share);
    }
  }

  /** Whether so many blocks are within its account's part; where not, the account waits, and nobody else. */
  #holdToShare(sequence: Sequence, added: number): boolean {
    const { account, kvShare } = sequence;
    if (kvShare === undefined) return true;
    const own = this.#running.filter((each) => each.account === account);
    const outstanding = own.reduce((sum, each) => sum + outstandingBlocks(each), 0);
    const fits = this.tables.fitsShare(sequence, outstanding + added);
    if (!fits) this.#queue.hold(account);
    return fits;
  }

  /** Whether there are blocks and a lane for a sequence; for a guest, others that can do so make place. */
  #hasPlace(partial: PartialPlan, sequence: Sequence, matched: readonly number[], isGuest: boolean): boolean {
    const lack = this.#lackOf(sequence, matched);
    if (lack.blocks <= 0 && lack.lanes <= 0) return true;
    const yielding = isGuest
      ? makePlace(
          this.#running.filter((each) => !partial.admitted.includes(each)),
          sequence,
          this.#accounts,
          { ...lack, freedBy: (each) => this.tables.ownBlocks(each) + outstandingBlocks(each) },
        )
      : undefined;
    for (const each of yielding ?? []) this.#giveWay(partial, each);
    if (lack.blocks <= 0) partial.notForBlocks += yielding?.length ?? 0;
    if (yielding !== undefined && this.#lackOf(sequence, matched).blocks <= 0) return true;
    partial.short ||= lack.blocks > 0;
    return false;
  }

  /** Above 0 where it does not fit: lanes, and blocks below the watermark, or one to write to. */
  #lackOf(sequence: Sequence, matched: readonly number[]): { lanes: number; blocks: number } {
    const lanes = this.#running.length + 1 - this.#limit;
    if (!this.tables.hasBlockBeside(matched)) return { lanes, blocks: 1 };
    if (this.#running.length === 0) return { lanes, blocks: 0 };
    const added = this.tables.addedBlocks(sequence, matched);
    const promised = this.tables.pool.usedCount + this.#outstandingBlocks() + added;
    return { lanes, blocks: promised - this.#watermarkBlocks() };
  }

  #admissionShare({ left, hasChunk }: PartialPlan, remaining: number, isGuest: boolean): number {
    const others = this.#couldAdmit(2);
    const share = hasChunk ? furtherShare(left, remaining, others) : leadingShare(left, others);
    return share === 0 && isGuest ? left : share;
  }

  #start(sequence: Sequence, matched: readonly number[]): void {
    this.tables.adopt(sequence, matched);
    if (sequence.state === 'waiting' && !this.#wholeTexts) {
      sequence.cachedTokens = Math.min(sequence.computed, sequence.promptLength);
      this.#counters.prefixQueriedTokens += sequence.promptLength;
      this.#counters.prefixHitTokens += sequence.cachedTokens;
    }
    this.#counters.admissions += 1;
    sequence.state = 'running';
    sequence.startedFrom = sequence.computed;
    this.#running.push(sequence);
    this.#queue.started(sequence, this.#workAhead(sequence));
  }

  /** Gives tokens that found no taker to the first who can use them, as far as free blocks go. */
  #spendRest(partial: PartialPlan): void {
    for (const item of partial.items) {
      if (partial.left <= 0) return;
      const { sequence, count } = item;
      const tokens = chunk(sequence.computed, sequence.remaining, count + partial.left);
      if (tokens <= count) continue;
      item.count = this.tables.grow(sequence, tokens);
      partial.left -= item.count - count;
    }
  }

  /** Draft tokens never cost anybody a block or a place. */
  #addDrafts(partial: PartialPlan, propose: Propose): void {
    const decoding = partial.items.filter(
      ({ sequence, count }) => count === 1 && sequence.remaining === 1 && sequence.pooled === undefined,
    );
    if (decoding.length === 0) return;
    const load = loadOf(partial.items);
    const slots = this.tables.recurrentStates?.spare(partial.items.map(({ sequence }) => sequence));
    let left = Math.min(this.budget.maxStepTokens - load.tokens, slots ?? Number.POSITIVE_INFINITY);
    const drafts = propose(
      decoding.map(({ sequence }) => sequence),
      load,
    );
    for (const item of decoding) {
      const wanted = drafts.get(item.sequence) ?? noDraft;
      const { sequence } = item;
      const { freeCount, cachedFreeCount } = this.tables.pool;
      // Within its own blocks, and one that holds nothing.
      const room = sequence.blocks.length * BLOCK_TOKENS - sequence.computed - 1;
      const most = Math.min(
        wanted.tokens.length,
        left,
        sequence.maxTokens - 1 - sequence.length,
        freeCount > cachedFreeCount && this.tables.isWithinShare(sequence) ? room + BLOCK_TOKENS : room,
      );
      item.draft = shortened(wanted, most <= 0 ? 0 : this.tables.grow(sequence, 1 + most) - 1);
      left -= item.draft.tokens.length;
    }
  }

  #applyLimit(): void {
    this.tables.pool.setLimit(Math.min(this.#granted, this.#deviceBlocks ?? this.#granted));
    this.#queue.resumeAll();
  }

  /** Blocks that a plan can take: those of the step's tokens, and one of each sequence that is not full; or of all tokens there are. */
  #mostTakenBlocks(): number {
    let tokens = this.budget.maxStepTokens;
    if (this.#wholeTexts) for (const { length } of this.waiting()) tokens = Math.max(tokens, length);
    const sequences = Math.min(this.#limit, this.#running.length + this.waitingCount);
    const most = Math.ceil(tokens / BLOCK_TOKENS) + sequences;
    // Draft tokens may take one block more.
    let taken = this.#outstandingBlocks() + this.#running.length;
    for (const { length } of this.waiting()) {
      if (taken >= most) break;
      taken += blocksFor(length);
    }
    return Math.min(most, taken);
  }

  #watermarkBlocks(): number {
    return Math.floor(this.#watermark * this.tables.pool.limit);
  }

  /** Twice the limit, and room for those that run and the next one at least. */
  #wantedBlocks(): number {
    const { limit, usedCount, blockCount } = this.tables.pool;
    const next = this.#queue.peek();
    const needed =
      usedCount + this.#outstandingBlocks() + (next === undefined ? 1 : blocksFor(next.length + 1));
    return Math.min(blockCount, Math.max(2 * limit, needed));
  }

  /** Blocks that running sequences will need for the tokens they have. */
  #outstandingBlocks(): number {
    return this.#running.reduce((sum, sequence) => sum + outstandingBlocks(sequence), 0);
  }

  /** Of the tokens that a sequence has and are not computed. */
  #workAhead({ computed, remaining }: Sequence): number {
    return this.#workOf(computed, remaining, Number.POSITIVE_INFINITY);
  }

  /** Of `count` tokens of one sequence behind `start` others, in a step of so many sequences. */
  #workOf(start: number, count: number, sequences: number): number {
    const attended = this.#wholeTexts ? count * count : attendedTokens(start, count);
    return this.budget.costModel.workOf(count, attended, sequences);
  }
}

function outstandingBlocks({ length, blocks }: Sequence): number {
  return blocksFor(length) - blocks.length;
}

function tooLong({ promptLength }: Sequence, blocks: number): 'prompt' | 'answer' {
  return blocksFor(promptLength) > blocks ? 'prompt' : 'answer';
}
