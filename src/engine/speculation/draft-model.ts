// A smaller model of the same vocabulary that guesses for all who want it, in steps of its own: one token of each at a time.
// It draws as the large model would, with the same seed at the same place, so that the two agree as often as they can. It has
// blocks of its own; what it computed of guesses that were right stays, the rest is written over.

import type { Backend } from '../../compute/backend.ts';
import { type BatchSequence, buildBatch } from '../../compute/batch.ts';
import type { ModelSpec } from '../../model/spec.ts';
import type { SampleRow } from '../../sampling/sample-row.ts';
import { BlockTables } from '../cache/block-tables.ts';
import { Sequence } from '../sequence.ts';
import type { Drafter, Guess } from './drafter.ts';

/** Tokens of one sequence that a step of the draft model takes at most, on its way to where guesses begin. */
const MOST_ROWS = 256;

export interface DraftOptions {
  readonly backend: Backend;
  readonly vocabSize: number;
  readonly contextLength: number;
}

/** A sequence that wants guesses. */
export interface DraftWish {
  readonly sequence: Sequence;
  readonly drafter: ModelDrafter;
  /** How the token behind these guesses is drawn; undefined where none can be. */
  readonly rowBehind: (guesses: readonly number[]) => SampleRow | undefined;
}

/** What the draft model guessed last, handed out one by one. */
export class ModelDrafter implements Drafter {
  #guesses: readonly number[] = [];
  #at = 0;

  set(guesses: readonly number[]): void {
    this.#guesses = guesses;
    this.#at = 0;
  }

  guess(): Guess | undefined {
    const token = this.#guesses[this.#at];
    return token === undefined ? undefined : { token, kind: 'model' };
  }

  imagine(token: number): void {
    // Behind another token its guesses say nothing.
    this.#at = this.#guesses[this.#at] === token ? this.#at + 1 : this.#guesses.length;
  }

  forget(): void {
    this.#at = 0;
  }

  accept(): void {
    this.set([]);
  }
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
  readonly guesses: number[];
}

export class DraftModel {
  readonly #options: DraftOptions;
  readonly #tables: BlockTables;
  readonly #drafts = new Map<Sequence, Draft>();

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

  /** Guesses up to `most` tokens of each; fewer, or none, where there is no room, or much to catch up with. */
  async draft(wishes: readonly DraftWish[], most: number): Promise<void> {
    this.#keepToLimit();
    for (const { drafter } of wishes) drafter.set([]);
    let rounds = await this.#catchUp(wishes);
    for (let count = 1; count < most && rounds.length > 0; count++) rounds = await this.#goOn(rounds);
  }

  release(sequence: Sequence): void {
    const draft = this.#drafts.get(sequence);
    if (draft === undefined) return;
    this.#drafts.delete(sequence);
    this.#tables.release(draft.copy);
  }

  /** Computes what came since the last time; those that are then at their end have their first guess. */
  async #catchUp(wishes: readonly DraftWish[]): Promise<Round[]> {
    const rounds: Round[] = [];
    const items: BatchSequence[] = [];
    const computed = new Map<Sequence, number>();
    for (const wish of wishes) {
      const draft = this.#upToDate(wish.sequence);
      const { copy } = draft;
      const wanted = Math.min(copy.remaining, MOST_ROWS);
      if (copy.length + 1 >= this.#options.contextLength || this.#tables.grow(copy, wanted) < wanted) {
        this.release(wish.sequence);
        continue;
      }
      const tokens = copy.tokens.subarray(copy.computed, copy.computed + wanted);
      const isEnd = wanted === copy.remaining;
      items.push({ tokens, start: copy.computed, blocks: copy.blocks, wantLogits: isEnd ? 'last' : 'none' });
      // The last token counts as written, not as computed: a sequence always has one to compute.
      computed.set(copy, isEnd ? wanted - 1 : wanted);
      if (isEnd) rounds.push({ ...draft, wish, guesses: [] });
    }
    return this.#step(items, rounds, computed);
  }

  /** One more token of each. */
  #goOn(rounds: readonly Round[]): Promise<Round[]> {
    const going: Round[] = [];
    const items: BatchSequence[] = [];
    for (const round of rounds) {
      const { copy, guesses } = round;
      const position = copy.length - 1 + guesses.length;
      const wanted = position + 1 - copy.computed;
      if (position + 1 >= this.#options.contextLength || this.#tables.grow(copy, wanted) < wanted) continue;
      const tokens = guesses.slice(-1);
      items.push({ tokens, start: position, blocks: copy.blocks, wantLogits: 'last' });
      going.push(round);
    }
    return this.#step(items, going, new Map());
  }

  /** Computes, and draws a guess for each round; gives those that can go on. `computed`: of each, so many tokens for good. */
  async #step(
    items: readonly BatchSequence[],
    rounds: readonly Round[],
    computed: ReadonlyMap<Sequence, number>,
  ): Promise<Round[]> {
    if (items.length === 0) return [];
    const { backend, vocabSize } = this.#options;
    // Blocks may have been dropped and taken anew since; nothing is written to them yet.
    const dropped = this.#tables.pool.takeDropped();
    if (dropped.length > 0) backend.releaseBlocks(Int32Array.from(dropped));
    const { logits } = await backend.step(buildBatch(items));
    // Whatever ended meanwhile has no blocks any more.
    const isHeld = ({ blocks }: Sequence) => blocks.length > 0;
    for (const [copy, count] of computed) if (isHeld(copy)) this.#tables.advance(copy, count);
    return rounds.filter(({ copy, wish, guesses, written }, index) => {
      if (!isHeld(copy)) return false;
      written.push(guesses.at(-1) ?? (copy.storage[copy.length - 1] as number));
      const row = wish.rowBehind(guesses);
      if (row === undefined) return false;
      const own = logits.subarray(index * vocabSize, (index + 1) * vocabSize);
      const [result] = backend.sampleRows(own, vocabSize, [row]);
      if (result?.ok !== true) return false;
      guesses.push(result.token);
      wish.drafter.set([...guesses]);
      return true;
    });
  }

  /** Takes over the tokens that came, and keeps what was computed of those that were guessed. */
  #upToDate(sequence: Sequence): Draft {
    const draft = this.#drafts.get(sequence) ?? this.#begin(sequence);
    const { copy, written } = draft;
    for (let at = copy.length; at < sequence.length; at++) copy.append(sequence.storage[at] as number);
    let right = 0;
    while (right < written.length && copy.storage[copy.computed + right] === written[right]) right += 1;
    this.#tables.advance(copy, Math.min(right, copy.remaining - 1));
    this.#tables.trim(copy);
    draft.written.length = 0;
    return draft;
  }

  #begin(sequence: Sequence): Draft {
    const { id, priority, enqueuedMs, salt, maxTokens } = sequence;
    const tokens = Int32Array.from(sequence.tokens);
    const copy = new Sequence({ id, tokens, maxTokens: maxTokens + 1, priority, enqueuedMs, salt });
    this.#tables.adopt(copy, this.#tables.match(copy));
    const draft = { copy, written: [] };
    this.#drafts.set(sequence, draft);
    return draft;
  }

  /** Those who came first go first: they begin anew where they still want guesses. */
  #keepToLimit(): void {
    const { pool } = this.#tables;
    for (const sequence of this.#drafts.keys()) {
      if (pool.usedCount <= pool.limit) break;
      this.release(sequence);
    }
  }
}

/** Why a model cannot guess for another with so many tokens; undefined where it can. */
export function draftRefusal(
  { vocabSize, memories, headless }: Pick<ModelSpec, 'vocabSize' | 'memories' | 'headless'>,
  wanted: number,
): string | undefined {
  if (headless === true) return 'it embeds texts and draws no tokens';
  if (vocabSize !== wanted) return `it has ${vocabSize} tokens, not ${wanted}`;
  return memories.length === 0 ? undefined : 'its layers remember, and wrong guesses cannot be taken back';
}
