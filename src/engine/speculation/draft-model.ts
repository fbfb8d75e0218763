// A smaller model of the same vocabulary that drafts for all who want it, in steps of its own: one token of each at a time.
// It draws as the large model would, with the same seed at the same place, so that the two agree as often as they can. It has
// blocks of its own; what it computed of draft tokens that were right stays, the rest is written over.

import type { Backend } from '../../compute/backend.ts';
import { type BatchSequence, buildBatch } from '../../compute/batch.ts';
import type { ModelSpec } from '../../model/spec.ts';
import type { SampleRow } from '../../sampling/sample-row.ts';
import { BlockTables } from '../cache/block-tables.ts';
import { Sequence } from '../sequence.ts';
import type { Drafter, DraftToken } from './drafter.ts';

/** Tokens of all sequences together that are computed at most before draft tokens begin: others wait meanwhile. */
const CATCH_UP_ROWS = 256;
/** So many new tokens are no catching up: those that came since the last draft tokens. */
const FEW_ROWS = 16;
/** Who found no blocks tries again after so many tokens. */
const TRIES_AGAIN_AFTER = 64;

export interface DraftOptions {
  readonly backend: Backend;
  readonly vocabSize: number;
  readonly contextLength: number;
}

/** A sequence that wants draft tokens. */
export interface DraftWish {
  readonly sequence: Sequence;
  readonly drafter: ModelDrafter;
  /** How the token behind these draft tokens is drawn; undefined where none can be. */
  readonly rowAfter: (draftTokens: readonly number[]) => SampleRow | undefined;
}

/** What the draft model drafted last, handed out one by one. */
export class ModelDrafter implements Drafter {
  #draftTokens: readonly number[] = [];
  #at = 0;

  set(draftTokens: readonly number[]): void {
    this.#draftTokens = draftTokens;
    this.#at = 0;
  }

  propose(): DraftToken | undefined {
    const token = this.#draftTokens[this.#at];
    return token === undefined ? undefined : { token, source: 'draft-model', matchLength: 0 };
  }

  extend(token: number): void {
    // Behind another token its draft tokens say nothing.
    this.#at = this.#draftTokens[this.#at] === token ? this.#at + 1 : this.#draftTokens.length;
  }

  rollBack(): void {
    this.#at = 0;
  }

  accept(): void {
    this.set([]);
  }
}

/** What so many rounds for so many sequences took. */
export interface DraftTime {
  readonly sequences: number;
  readonly rounds: number;
  readonly ms: number;
}

/** A sequence as the draft model knows it. */
interface Draft {
  readonly copy: Sequence;
  /** Tokens whose K/V were written behind those of `copy.computed`: they count as far as they came true. */
  written: number[];
}

/** A draft on its way. */
interface Round extends Draft {
  readonly wish: DraftWish;
  readonly draftTokens: number[];
}

export class DraftModel {
  readonly #options: DraftOptions;
  readonly #tables: BlockTables;
  readonly #drafts = new Map<Sequence, Draft>();
  /** Those for whom there were no blocks, and how long they were. */
  readonly #refused = new WeakMap<Sequence, number>();

  constructor(options: DraftOptions) {
    this.#options = options;
    this.#tables = new BlockTables(options.backend.blockCount);
  }

  /** At most so many blocks hold memory from now on. */
  allow(blocks: number): void {
    this.#tables.pool.setLimit(blocks);
  }

  useThreads(count: number): void {
    this.#options.backend.useThreads?.(count);
  }

  /** Whether draft tokens could be made for a sequence. */
  fits(sequence: Sequence): boolean {
    const refusedAt = this.#refused.get(sequence);
    if (refusedAt !== undefined && sequence.length < refusedAt + TRIES_AGAIN_AFTER) return false;
    return sequence.length + 2 < this.#options.contextLength;
  }

  /**
   * Draft tokens up to `most` tokens of each; none yet for those with much to catch up with. Gives how long the rounds took,
   * without the catching up, and for how many sequences; undefined where there was none.
   */
  async draft(wishes: readonly DraftWish[], most: number): Promise<DraftTime | undefined> {
    for (const { drafter } of wishes) drafter.set([]);
    const ready = await this.#catchUp(wishes);
    const started = performance.now();
    let going = await this.#begin(ready);
    const sequences = going.length;
    let rounds = 1;
    for (; rounds < most && going.length > 0; rounds++) going = await this.#goOn(going);
    return sequences === 0 ? undefined : { sequences, rounds, ms: performance.now() - started };
  }

  release(sequence: Sequence): void {
    const draft = this.#drafts.get(sequence);
    if (draft === undefined) return;
    this.#drafts.delete(sequence);
    this.#tables.release(draft.copy);
  }

  /** Computes what came before the last few tokens, as far as the rows go; gives those that are there. */
  async #catchUp(wishes: readonly DraftWish[]): Promise<DraftWish[]> {
    const ready: DraftWish[] = [];
    const items: BatchSequence[] = [];
    const computed = new Map<Sequence, number>();
    let left = CATCH_UP_ROWS;
    for (const wish of wishes) {
      const { copy } = this.#upToDate(wish.sequence);
      if (copy.remaining <= FEW_ROWS) ready.push(wish);
      else {
        const count = this.#grow(wish.sequence, copy, Math.min(copy.remaining - 1, left));
        left -= count;
        if (count === 0) continue;
        const tokens = copy.tokens.subarray(copy.computed, copy.computed + count);
        items.push({ tokens, start: copy.computed, blocks: copy.blocks, wantLogits: 'none' });
        computed.set(copy, count);
      }
    }
    await this.#step(items, [], computed);
    return ready;
  }

  /** The first draft token of each. */
  #begin(wishes: readonly DraftWish[]): Promise<Round[]> {
    const rounds: Round[] = [];
    const items: BatchSequence[] = [];
    const computed = new Map<Sequence, number>();
    for (const wish of wishes) {
      const draft = this.#drafts.get(wish.sequence);
      if (draft === undefined) continue;
      const { copy } = draft;
      const wanted = copy.remaining;
      if (this.#grow(wish.sequence, copy, wanted) < wanted) continue;
      const tokens = copy.tokens.subarray(copy.computed, copy.computed + wanted);
      items.push({ tokens, start: copy.computed, blocks: copy.blocks, wantLogits: 'last' });
      // The last token counts as written, not as computed: a sequence always has one to compute.
      computed.set(copy, wanted - 1);
      rounds.push({ ...draft, wish, draftTokens: [] });
    }
    return this.#step(items, rounds, computed);
  }

  /** As many of `count` tokens as there are blocks for; who gets less than it wants gives all back. */
  #grow(sequence: Sequence, copy: Sequence, count: number): number {
    if (count === 0) return 0;
    const granted = this.#tables.grow(copy, count);
    if (granted === count) return count;
    this.#refused.set(sequence, sequence.length);
    this.release(sequence);
    return 0;
  }

  /** One more token of each. */
  #goOn(rounds: readonly Round[]): Promise<Round[]> {
    const going: Round[] = [];
    const items: BatchSequence[] = [];
    for (const round of rounds) {
      const { copy, draftTokens } = round;
      const position = copy.length - 1 + draftTokens.length;
      const wanted = position + 1 - copy.computed;
      if (position + 1 >= this.#options.contextLength || this.#tables.grow(copy, wanted) < wanted) continue;
      const tokens = draftTokens.slice(-1);
      items.push({ tokens, start: position, blocks: copy.blocks, wantLogits: 'last' });
      going.push(round);
    }
    return this.#step(items, going, new Map());
  }

  /** Computes, and draws a draft token for each round; gives those that can go on. `computed`: of each, so many tokens for good. */
  async #step(
    items: readonly BatchSequence[],
    rounds: readonly Round[],
    computed: ReadonlyMap<Sequence, number>,
  ): Promise<Round[]> {
    if (items.length === 0) return [];
    const { backend, vocabSize } = this.#options;
    // Blocks may have been dropped and taken anew since; nothing is written to them yet.
    this.#releaseDropped();
    const { logits } = await backend.step(buildBatch(items));
    // Whatever ended meanwhile has no blocks any more.
    const isHeld = ({ blocks }: Sequence) => blocks.length > 0;
    for (const [copy, count] of computed) if (isHeld(copy)) this.#tables.advance(copy, count);
    return rounds.filter(({ copy, wish, draftTokens, written }, index) => {
      if (!isHeld(copy)) return false;
      written.push(draftTokens.at(-1) ?? (copy.storage[copy.length - 1] as number));
      const row = wish.rowAfter(draftTokens);
      if (row === undefined) return false;
      const own = logits.subarray(index * vocabSize, (index + 1) * vocabSize);
      const [result] = backend.sampleRows(own, vocabSize, [row]);
      if (result?.ok !== true) return false;
      draftTokens.push(result.token);
      wish.drafter.set([...draftTokens]);
      return true;
    });
  }

  /** Takes over the tokens that came, and keeps what was computed of those that were drafted. */
  #upToDate(sequence: Sequence): Draft {
    const draft = this.#drafts.get(sequence) ?? this.#newDraft(sequence);
    const { copy, written } = draft;
    for (let at = copy.length; at < sequence.length; at++) copy.append(sequence.storage[at] as number);
    let right = 0;
    while (right < written.length && copy.storage[copy.computed + right] === written[right]) right += 1;
    this.#tables.advance(copy, Math.min(right, copy.remaining - 1));
    this.#tables.trim(copy);
    draft.written.length = 0;
    return draft;
  }

  #newDraft(sequence: Sequence): Draft {
    const { id, priority, enqueuedMs, salt, maxTokens } = sequence;
    const tokens = Int32Array.from(sequence.tokens);
    const copy = new Sequence({ id, tokens, maxTokens: maxTokens + 1, priority, enqueuedMs, salt });
    this.#tables.adopt(copy, this.#tables.match(copy));
    const draft = { copy, written: [] };
    this.#drafts.set(sequence, draft);
    return draft;
  }

  /** Gives blocks back that may be held no longer. Those who came first go first: they begin anew where they still want draft tokens. */
  keepToLimit(): void {
    const { pool } = this.#tables;
    for (const sequence of this.#drafts.keys()) {
      if (pool.usedCount <= pool.limit) break;
      this.release(sequence);
    }
    this.#releaseDropped();
  }

  #releaseDropped(): void {
    const dropped = this.#tables.pool.takeDropped();
    if (dropped.length > 0) this.#options.backend.releaseBlocks(Int32Array.from(dropped));
  }
}

/** Why a model cannot draft for another with so many tokens; undefined where it can. */
export function draftRefusal(
  { vocabSize, memories, headless }: Pick<ModelSpec, 'vocabSize' | 'memories' | 'headless'>,
  wanted: number,
): string | undefined {
  if (headless === true) return 'it embeds texts and draws no tokens';
  if (vocabSize !== wanted) return `it has ${vocabSize} tokens, not ${wanted}`;
  return memories.length === 0
    ? undefined
    : 'its layers remember, and wrong draft tokens cannot be taken back';
}
