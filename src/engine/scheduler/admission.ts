// Admits waiting sequences to a step, in the queue's order, as far as there are tokens, lanes and blocks for them.

import { BLOCK_TOKENS } from '../../compute/backend.ts';
import { blocksFor, reusableBlocks } from '../cache/block-tables.ts';
import { notShared, prefixMiss } from '../cache/prefix-miss.ts';
import type { BlockLimits } from './block-limits.ts';
import { furtherShare, leadingShare } from './chunk.ts';
import { noDraft } from './draft.ts';
import { makePlace } from './give-way.ts';
import type { LoadOffer, LowerTiers } from './lower-tiers.ts';
import { besideText, noLoad, type PartialPlan } from './partial-plan.ts';
import { pendingPrefix } from './pending-prefix.ts';
import { outstandingBlocks, type RunningBatch } from './running-batch.ts';
import type { Loading, Sequence } from './sequence.ts';
import type { StepLoad } from './step-plan.ts';

/** Grants come within some milliseconds where there is memory. An engine that has nothing to compute plans again every 25 ms. */
const MOST_GRANT_WAITS = 40;

interface AdmissionOptions {
  /** Sequences that may run at once. */
  readonly lanes: number;
  /** Where blocks may come up from. */
  readonly lowerTiers: LowerTiers | undefined;
}

export class Admission {
  readonly #batch: RunningBatch;
  readonly #blocks: BlockLimits;
  readonly #lanes: number;
  readonly #lowerTiers: LowerTiers | undefined;

  constructor(batch: RunningBatch, blocks: BlockLimits, { lanes, lowerTiers }: AdmissionOptions) {
    this.#batch = batch;
    this.#blocks = blocks;
    this.#lanes = lanes;
    this.#lowerTiers = lowerTiers;
  }

  /**
   * Nothing overtakes the first that does not fit, or large requests would wait for ever. Those that wait for a prefix
   * which is being computed step aside. Where decodes take all of the step's time, which is not `roomy`, only guests are
   * admitted: sequences of accounts that run nothing.
   */
  admit(partial: PartialPlan, roomy: boolean): void {
    const { queue, running, tables, deferrals } = this.#batch;
    for (;;) {
      const sequence = queue.peek();
      // What was just preempted must not come straight back.
      if (sequence === undefined || partial.preempted.includes(sequence)) return;
      const isGuest = queue.runningOf(sequence.account) === 0;
      const isFree = roomy && partial.left > 0 && running.length < this.#lanes;
      if (!isFree && !isGuest) return;
      const found = tables.match(sequence);
      const pending = pendingPrefix(sequence, found, running);
      if (pending !== undefined) {
        queue.remove(sequence);
        deferrals.add({ sequence, ...pending });
        tables.recurrentStates?.wantCheckpoint(pending.owner, pending.blocks * BLOCK_TOKENS);
        continue;
      }
      const matched = tables.resumable(found);
      if (!this.#holdToShare(sequence, tables.addedBlocks(sequence, matched))) continue;
      if (!this.#hasPlace(partial, sequence, matched, isGuest)) return;
      const offer = sequence.mayLoad ? this.#lowerTiers?.offer(sequence, found, matched.length) : undefined;
      const computeMs = offer === undefined ? 0 : this.#computeMs(matched, offer);
      if (offer !== undefined && offer.ms < computeMs) {
        if (this.#load(partial, sequence, found, { ...offer, computeMs })) continue;
        if (this.#waitsForGrant(partial, sequence)) return;
      }
      const start = matched.length * BLOCK_TOKENS;
      const share = this.#admissionShare(partial, sequence.length - start, isGuest);
      if (share <= 0 || !partial.hasChunkFor(sequence, start, share)) return;
      queue.remove(sequence);
      sequence.miss ??= prefixMiss(tables.prefixes, sequence, found, matched, offer?.tier);
      // Where it parts from others, and where one like it would.
      for (const blocks of [found.length, reusableBlocks(sequence)]) {
        tables.recurrentStates?.wantCheckpoint(sequence, blocks * BLOCK_TOKENS);
      }
      this.#batch.start(sequence, matched);
      partial.admitted.push(sequence);
      partial.placeChunk(sequence, share);
    }
  }

  /**
   * Admits whole texts, as many as the budget holds and there are blocks for: all are given back after the step. A text that
   * is larger than the budget goes alone.
   */
  admitTexts(partial: PartialPlan): StepLoad {
    const { queue, running, tables, budget } = this.#batch;
    let load = noLoad;
    while (running.length < this.#lanes) {
      const sequence = queue.peek();
      if (sequence === undefined) break;
      const { length } = sequence;
      const next = besideText(load, length);
      if (partial.items.length > 0 && !budget.holds(next)) break;
      if (!this.#holdToShare(sequence, blocksFor(length))) continue;
      if (blocksFor(length) > tables.pool.freeCount) {
        partial.short = true;
        break;
      }
      queue.remove(sequence);
      sequence.miss ??= notShared;
      this.#batch.start(sequence, []);
      partial.admitted.push(sequence);
      partial.items.push({ sequence, count: tables.grow(sequence, length), draft: noDraft });
      load = next;
    }
    return load;
  }

  /** Whether `count` of those that wait would find a lane and blocks, as far as is known without looking at them. */
  couldAdmit(count: number): boolean {
    const { queue, running, tables } = this.#batch;
    if (queue.size < count) return false;
    const isFree =
      running.length + count <= this.#lanes && tables.pool.usedCount < this.#blocks.watermarkBlocks();
    return isFree || (running.length > queue.runningAccounts && this.guestWaits());
  }

  /** Whether the next is of an account that runs nothing: tokens are kept for it, and accounts that run several make place. */
  guestWaits(): boolean {
    const { queue } = this.#batch;
    const next = queue.peek();
    return next !== undefined && queue.runningOf(next.account) === 0;
  }

  /** How long it would take to compute what is offered. */
  #computeMs(matched: readonly number[], { end }: LoadOffer): number {
    const start = matched.length * BLOCK_TOKENS;
    return this.#batch.workOf(start, end * BLOCK_TOKENS - start, Number.POSITIVE_INFINITY);
  }

  /** Has blocks come up where there is room for them. */
  #load(
    partial: PartialPlan,
    sequence: Sequence,
    found: readonly number[],
    { end, tier, computeMs }: Loading,
  ): boolean {
    const { queue, tables } = this.#batch;
    if (!tables.reserve(sequence, found, end)) return false;
    queue.remove(sequence);
    sequence.miss ??= end === reusableBlocks(sequence) ? { why: 'end' } : { why: 'new' };
    tables.recurrentStates?.wantCheckpoint(sequence, reusableBlocks(sequence) * BLOCK_TOKENS);
    this.#batch.startLoading(sequence, { end, tier, computeMs });
    partial.loading.push(sequence);
    return true;
  }

  /**
   * Whether it waits for more blocks to be granted, which an engine that begins has few of: a load needs all of its blocks at
   * once, and a prompt that is computed only those of its next chunk. Where something runs there is room already.
   */
  #waitsForGrant(partial: PartialPlan, sequence: Sequence): boolean {
    const { running, tables } = this.#batch;
    const isAllThereIs = this.#blocks.isLimitedByDevice || this.#blocks.granted >= tables.pool.blockCount;
    if (running.length > 0 || isAllThereIs || sequence.grantWaits >= MOST_GRANT_WAITS) return false;
    sequence.grantWaits += 1;
    partial.short = true;
    return true;
  }

  /** Whether `added` blocks are within its account's part; where not, the account waits, and nobody else. */
  #holdToShare(sequence: Sequence, added: number): boolean {
    const { account, kvShare } = sequence;
    if (kvShare === undefined) return true;
    const own = this.#batch.running.filter((each) => each.account === account);
    const outstanding = own.reduce((sum, each) => sum + outstandingBlocks(each), 0);
    const fits = this.#batch.tables.fitsShareAfterEviction(sequence, outstanding + added);
    if (!fits) this.#batch.queue.hold(account);
    return fits;
  }

  /** Whether there are blocks and a lane for a sequence; for a guest, others that can do so make place. */
  #hasPlace(partial: PartialPlan, sequence: Sequence, matched: readonly number[], isGuest: boolean): boolean {
    const lack = this.#lackOf(sequence, matched);
    if (lack.blocks <= 0 && lack.lanes <= 0) return true;
    const { running, accounts, tables } = this.#batch;
    const yielding = isGuest
      ? makePlace(
          running.filter((each) => !partial.admitted.includes(each)),
          sequence,
          accounts,
          { ...lack, freedBy: (each) => tables.ownBlocks(each) + outstandingBlocks(each) },
        )
      : undefined;
    for (const each of yielding ?? []) partial.giveWay(each);
    if (lack.blocks <= 0) partial.notForBlocks += yielding?.length ?? 0;
    if (yielding !== undefined && this.#lackOf(sequence, matched).blocks <= 0) return true;
    partial.short ||= lack.blocks > 0;
    return false;
  }

  /** Above 0 where it does not fit: lanes, and blocks below the watermark, or one to write to. */
  #lackOf(sequence: Sequence, matched: readonly number[]): { lanes: number; blocks: number } {
    const { running, tables } = this.#batch;
    const lanes = running.length + 1 - this.#lanes;
    const first = firstBlocks(sequence, matched.length);
    if (!tables.hasBlocksAfter(matched, first)) return { lanes, blocks: first };
    if (running.length === 0) return { lanes, blocks: 0 };
    const added = tables.addedBlocks(sequence, matched);
    const promised = tables.pool.usedCount + this.#batch.outstandingBlocks() + added;
    return { lanes, blocks: promised - this.#blocks.watermarkBlocks() };
  }

  #admissionShare({ left, hasChunk }: PartialPlan, remaining: number, isGuest: boolean): number {
    const others = this.couldAdmit(2);
    const share = hasChunk ? furtherShare(left, remaining, others) : leadingShare(left, others);
    return share === 0 && isGuest ? left : share;
  }
}

/** Blocks that its first step takes at least. */
function firstBlocks({ images }: Sequence, matched: number): number {
  if (images === undefined) return 1;
  return blocksFor(images.endAfter(matched * BLOCK_TOKENS + 1)) - matched;
}
