// A step plan while it is being made: who computes how many tokens, and who is preempted for want of blocks.

import { BLOCK_TOKENS } from '../../compute/backend.ts';
import type { StateUse } from '../../compute/batch-states.ts';
import { chunk, chunkOfImages } from './chunk.ts';
import { type Draft, noDraft, shortened } from './draft.ts';
import { leastEntitled } from './give-way.ts';
import type { RunningBatch } from './running-batch.ts';
import type { Sequence } from './sequence.ts';
import { attendedTokens, type Propose, type StepItem, type StepLoad, type StepPlan } from './step-plan.ts';

interface PartialItem {
  readonly sequence: Sequence;
  /** Without draft tokens. */
  count: number;
  draft: Draft;
}

export class PartialPlan {
  readonly items: PartialItem[] = [];
  readonly admitted: Sequence[] = [];
  readonly loading: Sequence[] = [];
  readonly preempted: Sequence[] = [];
  /** Those of them that made place within their own account's part of the blocks. */
  overShare = 0;
  /** Those of them that made place where only a lane was missing. */
  notForBlocks = 0;
  /** Prefill tokens not handed out yet. */
  left = 0;
  /** The most urgent prompt has its chunk. */
  hasChunk = false;
  /** Someone got fewer tokens, or no place, for want of blocks. */
  short = false;
  readonly #batch: RunningBatch;

  constructor(batch: RunningBatch) {
    this.#batch = batch;
  }

  /** Whether sequences got fewer blocks than they wanted. */
  get isShort(): boolean {
    return this.short || this.preempted.length > this.overShare + this.notForBlocks;
  }

  /** Gives blocks back that may be held no longer. */
  keepToLimit(): void {
    const { pool } = this.#batch.tables;
    while (pool.usedCount > pool.limit && this.#batch.running.length > 0) this.#preemptLast();
  }

  /** Preempts a sequence for the good of another. */
  giveWay(victim: Sequence): void {
    const index = this.items.findIndex((item) => item.sequence === victim);
    if (index >= 0) {
      this.left += (this.items[index] as PartialItem).count;
      this.items.splice(index, 1);
    }
    this.#batch.preempt(victim);
    this.preempted.push(victim);
  }

  placeChunk(sequence: Sequence, share: number): void {
    if (share === 0) return;
    this.left -= this.place(sequence, chunk(sequence.computed, sequence.remaining, share));
    this.hasChunk = true;
  }

  /** Whether a sequence that starts after `start` tokens gets any of its share: an image that is larger waits for a step without chunks. */
  hasChunkFor({ images, length }: Sequence, start: number, share: number): boolean {
    return chunkOfImages(images, start, chunk(start, length - start, share), !this.hasChunk) > 0;
  }

  /** Puts up to `most` tokens of a running sequence into the step, preempting where no block is left. */
  place(sequence: Sequence, most: number): number {
    const { images, computed, leastChunk } = sequence;
    const tokens = chunkOfImages(images, computed, this.#scorable(sequence, most), !this.hasChunk);
    if (tokens === 0) return 0;
    const { tables } = this.#batch;
    const lack = tables.lackFor(sequence, leastChunk);
    while (lack > 0 && !tables.mayTakeBlock(sequence, lack)) {
      if (this.#preemptOwn(sequence) === sequence) return 0;
    }
    while (tables.pool.freeCount < lack) {
      if (this.#preemptLast() === sequence) return 0;
    }
    const granted = tables.grow(sequence, tokens);
    if (granted < tokens && tables.mayTakeBlock(sequence)) this.short = true;
    const count = granted === tokens ? tokens : chunkOfImages(images, computed, granted, false);
    if (count === 0) return 0;
    this.items.push({ sequence, count, draft: noDraft });
    return count;
  }

  /** Gives tokens that found no taker to the first who can use them, as far as free blocks go. */
  spendRest(): void {
    for (const item of this.items) {
      if (this.left <= 0) return;
      const { sequence, count } = item;
      if (sequence.scored !== undefined) continue;
      const { images, computed, remaining } = sequence;
      const tokens = chunkOfImages(images, computed, chunk(computed, remaining, count + this.left), false);
      if (tokens <= count) continue;
      const granted = this.#batch.tables.grow(sequence, tokens);
      item.count = granted === tokens ? tokens : chunkOfImages(images, computed, granted, false);
      this.left -= item.count - count;
    }
  }

  /** Draft tokens never cost anybody a block or a place. */
  addDrafts(propose: Propose): void {
    const { tables, budget } = this.#batch;
    const sampling = this.items.filter((item) => mayHaveDraft(item, tables.recurrentStates !== undefined));
    if (sampling.length === 0) return;
    const load = loadOf(this.items);
    const slots = tables.recurrentStates?.spare(this.items.map(({ sequence }) => sequence));
    let left = Math.min(budget.maxStepTokens - load.tokens, slots ?? Number.POSITIVE_INFINITY);
    const drafts = propose(
      sampling.map(({ sequence }) => sequence),
      load,
    );
    for (const item of sampling) {
      const { sequence, count } = item;
      const wanted = drafts.get(sequence) ?? noDraft;
      const most = Math.min(wanted.tokens.length, left, this.#draftRoom(item));
      item.draft = shortened(wanted, most <= 0 ? 0 : tables.grow(sequence, count + most) - count);
      left -= item.draft.tokens.length;
    }
  }

  /** `load` is what was counted on the way; where nothing was, tokens attend to those before them. */
  finished(load: StepLoad | undefined, loaded: readonly Sequence[]): StepPlan {
    const { items, admitted, preempted } = this;
    // One that was preempted for another loads no more.
    const loading = this.loading.filter((sequence) => sequence.loading !== undefined);
    const states = this.#batch.tables.recurrentStates?.plan(
      items.map(({ sequence, count, draft }) => ({
        holder: sequence,
        count,
        draftTokens: draft.tokens.length,
      })),
    );
    const steps = items.map((item, index) => stepItem(item, states?.[index]));
    return { items: steps, admitted, loading, loaded, preempted, load: load ?? loadOf(items) };
  }

  /** Of tokens that are scored as many as the step may have logits of. */
  #scorable({ scored }: Sequence, tokens: number): number {
    if (scored === undefined) return tokens;
    const taken = this.items.reduce(
      (sum, item) => sum + (item.sequence.scored === undefined ? 0 : item.count),
      0,
    );
    return Math.min(tokens, Math.max(0, this.#batch.scoredTokens - taken));
  }

  /** Draft tokens within its own blocks, and one that holds nothing. */
  #draftRoom({ sequence, count }: PartialItem): number {
    const { tables } = this.#batch;
    const { freeCount, cachedFreeCount } = tables.pool;
    const room = sequence.blocks.length * BLOCK_TOKENS - sequence.computed - count;
    return Math.min(
      sequence.maxTokens - 1 - sequence.length,
      freeCount > cachedFreeCount && tables.fitsShareWithoutEviction(sequence) ? room + BLOCK_TOKENS : room,
    );
  }

  #preemptLast(): Sequence {
    const { running, accounts } = this.#batch;
    const victim = leastEntitled(running, accounts);
    this.giveWay(victim);
    return victim;
  }

  /** The account's least urgent sequence makes place for another of its own, which runs next to it. */
  #preemptOwn({ account }: Sequence): Sequence {
    const victim = this.#batch.running.findLast((each) => each.account === account) as Sequence;
    this.giveWay(victim);
    this.overShare += 1;
    this.#batch.queue.hold(account);
    return victim;
  }
}

/**
 * Whether a token is sampled after those of the item. Where that is the end of a prompt, a recurrent state is kept there, and images may
 * reach beyond it: then drafts begin with the step after.
 */
function mayHaveDraft({ sequence, count }: PartialItem, isRecurrent: boolean): boolean {
  const { continues, remaining, images } = sequence;
  return continues && count === remaining && (count === 1 || (!isRecurrent && images === undefined));
}

/** What the sequences that decode make of the step. */
export function decodeLoad(running: readonly Sequence[]): StepLoad {
  let sequences = 0;
  let attended = 0;
  for (const { remaining, length } of running) {
    if (remaining !== 1) continue;
    sequences += 1;
    attended += length;
  }
  return { tokens: sequences, sequences, attended };
}

function stepItem({ sequence, count: own, draft }: PartialItem, state: StateUse | undefined): StepItem {
  const { pooled, scored, continues, length, computed: start } = sequence;
  const samples = continues && start + own === length;
  const states = pooled?.wantedOf(start, own) ?? [0, 0];
  const scores = scored?.wantedOf(start, own) ?? [0, 0];
  const count = own + draft.tokens.length;
  return {
    sequence,
    start,
    count,
    draft,
    samples,
    states,
    scores,
    ...(state === undefined ? {} : { state }),
  };
}

/** With a whole text more, each token of which attends to all. */
export function besideText({ tokens, sequences, attended }: StepLoad, length: number): StepLoad {
  return { tokens: tokens + length, sequences: sequences + 1, attended: attended + length * length };
}

export const noLoad: StepLoad = { tokens: 0, sequences: 0, attended: 0 };

/** Where tokens attend to those before them. */
function loadOf(items: readonly PartialItem[]): StepLoad {
  let tokens = 0;
  let attended = 0;
  for (const { sequence, count, draft } of items) {
    tokens += count + draft.tokens.length;
    attended += attendedTokens(sequence.computed, count + draft.tokens.length);
  }
  return { tokens, sequences: items.length, attended };
}
