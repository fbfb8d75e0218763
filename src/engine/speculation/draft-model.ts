// A smaller model of the same vocabulary that drafts for many sequences at once, in steps of its own: one token of each at a
// time. It samples as the large model would, with the same seed at the same position, so that the two agree as often as they
// can. It has KV blocks of its own; what it computed of tokens that were accepted stays, the rest is written over.

import type { Backend } from '../../compute/backend.ts';
import { type BatchSequence, buildBatch } from '../../compute/batch.ts';
import type { ModelSpec } from '../../model/spec.ts';
import { BlockTables } from '../cache/block-tables.ts';
import type { DraftToken } from '../scheduler/draft.ts';
import { Sequence } from '../scheduler/sequence.ts';
import {
  type Drafted,
  type DraftJob,
  type DraftLimits,
  type ModelDrafter,
  sampledToken,
  tokenOfModel,
} from './drafter.ts';

/** Tokens of all sequences together that are computed at most before drafting begins: the large model waits meanwhile. */
const CATCH_UP_ROWS = 256;
/** Up to this many new tokens are no catching up: they came since the last draft. */
const FEW_ROWS = 16;
/** A sequence that found no blocks tries again after this many tokens. */
const TRIES_AGAIN_AFTER = 64;

export interface DraftModelOptions {
  readonly backend: Backend;
  readonly vocabSize: number;
  readonly contextLength: number;
}

/** A sequence in the draft model's own blocks. */
interface Mirror {
  readonly copy: Sequence;
  /** Tokens whose KV was written after those that `copy` has computed: they count as far as they were accepted. */
  readonly written: number[];
}

/** A draft that is being made. */
interface OpenDraft extends Mirror, DraftJob {
  readonly tokens: DraftToken[];
  logprob: number;
}

export class DraftModel implements ModelDrafter {
  readonly source = 'draft-model';
  readonly #options: DraftModelOptions;
  readonly #tables: BlockTables;
  readonly #mirrors = new Map<Sequence, Mirror>();
  /** Those for which there were no blocks, and how long they were. */
  readonly #refused = new WeakMap<Sequence, number>();
  /** Blocks that may hold memory, if the device has it. */
  #allowed: number;

  constructor(options: DraftModelOptions) {
    this.#options = options;
    this.#tables = new BlockTables(options.backend.blockCount);
    this.#allowed = options.backend.blockCount;
  }

  /** From now on at most `blocks` hold memory. */
  allow(blocks: number): void {
    this.#allowed = blocks;
    this.#tables.pool.setLimit(blocks);
  }

  useThreads(count: number): void {
    this.#options.backend.useThreads?.(count);
  }

  /** Whether a sequence could get a draft. */
  fits(sequence: Sequence): boolean {
    const refusedAt = this.#refused.get(sequence);
    if (refusedAt !== undefined && sequence.length < refusedAt + TRIES_AGAIN_AFTER) return false;
    return sequence.length + 2 < this.#options.contextLength;
  }

  /** Computes all but the last few tokens of each, as far as the rows go; gives those that are ready to be drafted for. */
  async catchUp(jobs: readonly DraftJob[]): Promise<DraftJob[]> {
    const ready: DraftJob[] = [];
    const chunks: { readonly copy: Sequence; readonly count: number }[] = [];
    let left = CATCH_UP_ROWS;
    for (const job of jobs) {
      const { copy } = this.#upToDate(job.sequence);
      if (copy.remaining <= FEW_ROWS) {
        ready.push(job);
        continue;
      }
      const count = Math.min(copy.remaining - 1, left);
      if (count === 0 || !this.#hasRoom(job.sequence, copy, count)) continue;
      left -= count;
      chunks.push({ copy, count });
    }
    await this.#compute(
      chunks.map(({ copy, count }) => ({
        tokens: copy.tokens.subarray(copy.computed, copy.computed + count),
        start: copy.computed,
        blocks: copy.blocks,
        wantLogits: 'none',
      })),
    );
    for (const { copy, count } of chunks) if (isHeld(copy)) this.#tables.advance(copy, count);
    return ready;
  }

  async draft(jobs: readonly DraftJob[], { rounds: most, leastLogprob }: DraftLimits): Promise<Drafted> {
    const drafts = jobs.flatMap((job): OpenDraft[] => {
      const mirror = this.#mirrors.get(job.sequence);
      return mirror === undefined ? [] : [{ ...job, ...mirror, tokens: [], logprob: 0 }];
    });
    let going = drafts;
    let rounds = 0;
    for (; rounds < most && going.length > 0; rounds++) {
      going = (await this.#round(going)).filter(({ logprob }) => logprob >= leastLogprob);
    }
    const begun = drafts.filter(({ tokens }) => tokens.length > 0);
    return { drafts: new Map(begun.map(({ sequence, tokens }) => [sequence, tokens])), rounds };
  }

  release(sequence: Sequence): void {
    const mirror = this.#mirrors.get(sequence);
    if (mirror === undefined) return;
    this.#mirrors.delete(sequence);
    this.#tables.release(mirror.copy);
  }

  /** Gives blocks back that may be held no longer. Those that came first go first: they begin anew where they still want drafts. */
  async keepToLimit(): Promise<void> {
    const { pool } = this.#tables;
    for (const sequence of this.#mirrors.keys()) {
      if (pool.usedCount <= pool.limit) break;
      this.release(sequence);
    }
    this.#releaseDropped();
    const { blockMemory } = this.#options.backend;
    if (blockMemory === undefined || blockMemory.capacity <= this.#allowed) return;
    await blockMemory.fit(pool.residentCount, this.#allowed);
  }

  /** One more token of each; gives those that have got one. */
  async #round(drafts: readonly OpenDraft[]): Promise<OpenDraft[]> {
    const going = drafts.filter((draft) => this.#canGoOn(draft));
    const { vocabSize } = this.#options;
    const logits = await this.#compute(
      going.map(({ copy, tokens, written }) => ({
        // The first round also computes what came since the last draft.
        tokens:
          tokens.length === 0 ? copy.tokens.subarray(copy.computed) : [(tokens.at(-1) as DraftToken).token],
        start: copy.computed + written.length,
        blocks: copy.blocks,
        wantLogits: 'last',
      })),
    );
    return going.filter((draft, index) =>
      this.#sample(draft, logits.subarray(index * vocabSize, (index + 1) * vocabSize)),
    );
  }

  /** Whether there are positions and blocks for one more token. */
  #canGoOn({ sequence, copy, tokens }: OpenDraft): boolean {
    const end = copy.length + tokens.length;
    if (end >= this.#options.contextLength) return false;
    const count = end - copy.computed;
    return tokens.length === 0
      ? this.#hasRoom(sequence, copy, count)
      : this.#tables.grow(copy, count) === count;
  }

  /** Whether there are blocks for its tokens; a sequence for which there are not gives all back. */
  #hasRoom(sequence: Sequence, copy: Sequence, count: number): boolean {
    if (this.#tables.grow(copy, count) === count) return true;
    this.#refused.set(sequence, sequence.length);
    this.release(sequence);
    return false;
  }

  async #compute(items: readonly BatchSequence[]): Promise<Float32Array> {
    if (items.length === 0) return new Float32Array(0);
    // Blocks may have become uncommitted and been taken anew since; nothing is written to them yet.
    this.#releaseDropped();
    const batch = buildBatch(items);
    if (!(await this.#hasMemory())) return new Float32Array(0);
    return (await this.#options.backend.step(batch)).logits;
  }

  /** Whether the device has memory for all that is held; where not, all is given back, and less is held from now on. */
  async #hasMemory(): Promise<boolean> {
    const { blockMemory } = this.#options.backend;
    const { pool } = this.#tables;
    if (blockMemory === undefined || pool.residentCount <= blockMemory.capacity) return true;
    const capacity = await blockMemory.fit(pool.residentCount, this.#allowed);
    if (pool.residentCount <= capacity) return true;
    pool.setLimit(Math.min(this.#allowed, capacity));
    for (const sequence of [...this.#mirrors.keys()]) {
      this.#refused.set(sequence, sequence.length);
      this.release(sequence);
    }
    this.#releaseDropped();
    return false;
  }

  /** Adds the next token to a draft; false where there is none. */
  #sample(draft: OpenDraft, logits: Float32Array): boolean {
    const { copy, lookahead, tokens, written } = draft;
    if (!isHeld(copy)) return false;
    // The last token counts as written, not as computed: a sequence always has one to compute.
    this.#tables.advance(copy, copy.remaining - 1);
    written.push(tokens.at(-1)?.token ?? (copy.storage[copy.length - 1] as number));
    const { backend, vocabSize } = this.#options;
    const sampled = sampledToken(backend, logits, vocabSize, lookahead);
    if (sampled === undefined) return false;
    tokens.push(tokenOfModel(this.source, sampled));
    draft.logprob += sampled.logprob;
    return true;
  }

  /** Takes over the tokens that came, and keeps what was computed of those that were accepted. */
  #upToDate(sequence: Sequence): Mirror {
    const mirror = this.#mirrors.get(sequence) ?? this.#newMirror(sequence);
    const { copy, written } = mirror;
    for (let at = copy.length; at < sequence.length; at++) copy.append(sequence.storage[at] as number);
    let accepted = 0;
    while (accepted < written.length && copy.storage[copy.computed + accepted] === written[accepted])
      accepted += 1;
    this.#tables.advance(copy, Math.min(accepted, copy.remaining - 1));
    this.#tables.trim(copy);
    written.length = 0;
    return mirror;
  }

  #newMirror(sequence: Sequence): Mirror {
    const { id, priority, enqueuedMs, salt, maxTokens } = sequence;
    const tokens = Int32Array.from(sequence.tokens);
    const copy = new Sequence({ id, tokens, maxTokens: maxTokens + 1, priority, enqueuedMs, salt });
    this.#tables.adopt(copy, this.#tables.match(copy));
    const mirror = { copy, written: [] };
    this.#mirrors.set(sequence, mirror);
    return mirror;
  }

  #releaseDropped(): void {
    const uncommitted = this.#tables.pool.takeUncommitted();
    if (uncommitted.length > 0) this.#options.backend.releaseBlocks(Int32Array.from(uncommitted));
  }
}

/** A sequence that ended meanwhile has no blocks any more. */
function isHeld({ blocks }: Sequence): boolean {
  return blocks.length > 0;
}

/** Why a model cannot draft for another with this vocabulary; undefined where it can. */
export function draftRefusal(
  { vocabSize, recurrentStates, headless }: Pick<ModelSpec, 'vocabSize' | 'recurrentStates' | 'headless'>,
  wanted: number,
): string | undefined {
  if (headless === true) return 'it embeds texts and samples no tokens';
  if (vocabSize !== wanted) return `it has ${vocabSize} tokens, not ${wanted}`;
  return recurrentStates.length === 0
    ? undefined
    : 'its layers remember, and rejected tokens cannot be rolled back';
}
