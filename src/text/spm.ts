// SentencePiece BPE as GGUF stores it: a score per token instead of merges. The pair whose joined text has the best
// score merges first. A character without a token becomes its bytes. Spaces are written as ▁.

import { byteTokenIds, LONG_PIECE, type PieceEncoder } from './bpe.ts';
import { MergeLoop, type MergeRules, PairTable } from './merge-loop.ts';
import { partsOf, STEP_SIZE, type Steps } from './steps.ts';

export const escapedSpace = '▁';

interface SpmModel {
  readonly tokens: readonly string[];
  readonly scores: ArrayLike<number>;
  /** Results of merges: neither control tokens nor bytes. */
  readonly mergeable: ReadonlyMap<string, number>;
  /** For the byte tokens. */
  readonly ids: ReadonlyMap<string, number>;
  readonly unknownId: number | undefined;
}

// The cache of pairs is cleared beyond this.
const rememberedPairs = 1_000_000;

export function spmEncoder(model: SpmModel): PieceEncoder {
  const rules = new ScoredPairs(model);
  const loop = new MergeLoop(rules);
  const bytesOf = byteTokenIds(model.ids);
  return (piece, into) => {
    if (piece.length > LONG_PIECE) return encodeLong(piece, into);
    rules.forgetIfFull();
    const symbols = Int32Array.from(piece, (character) => rules.symbolOf(character));
    pushAll(symbols.subarray(0, loop.run(symbols, symbols.length)), into);
    return undefined;
  };

  /** With a loop and cache of its own: other pieces are encoded between steps. */
  function* encodeLong(piece: string, into: number[]): Steps {
    const own = rules.emptyCopy();
    const read: number[] = [];
    for (const part of partsOf(piece)) {
      for (const character of part) read.push(own.symbolOf(character));
      yield;
    }
    const symbols = Int32Array.from(read);
    const count = yield* new MergeLoop(own).steps(symbols, symbols.length);
    for (let from = 0; from < count; from += STEP_SIZE) {
      pushAll(symbols.subarray(from, Math.min(count, from + STEP_SIZE)), into);
      yield;
    }
  }

  function pushAll(symbols: Int32Array, into: number[]): void {
    for (const symbol of symbols) {
      if (symbol < model.tokens.length) into.push(symbol);
      else pushUnknown(rules.textOf(symbol), into);
    }
  }

  function pushUnknown(character: string, into: number[]): void {
    const bytes = bytesOf(character);
    if (bytes !== undefined) into.push(...bytes);
    else if (model.unknownId !== undefined) into.push(model.unknownId);
  }
}

/** Finds pairs by their joined text, with a cache. */
class ScoredPairs implements MergeRules {
  readonly #model: SpmModel;
  readonly #ranks: Int32Array;
  #known = new PairTable(4096);

  constructor(model: SpmModel, ranks = scoreRanks(model.scores, model.tokens.length)) {
    this.#model = model;
    this.#ranks = ranks;
  }

  emptyCopy(): ScoredPairs {
    return new ScoredPairs(this.#model, this.#ranks);
  }

  /** A character without a token gets a symbol past the vocabulary: it may still merge. */
  symbolOf(character: string): number {
    return (
      this.#model.mergeable.get(character) ?? this.#model.tokens.length + (character.codePointAt(0) as number)
    );
  }

  textOf(symbol: number): string {
    return this.#model.tokens[symbol] ?? String.fromCodePoint(symbol - this.#model.tokens.length);
  }

  find(left: number, right: number): number {
    const known = this.#known.find(left, right);
    const entry = known === -1 ? this.#learn(left, right) : known;
    return this.#known.merged(entry) === -1 ? -1 : entry;
  }

  rank(entry: number): number {
    return this.#known.rank(entry);
  }

  merged(entry: number): number {
    return this.#known.merged(entry);
  }

  forgetIfFull(): void {
    if (this.#known.size > rememberedPairs) this.#known = new PairTable(4096);
  }

  #learn(left: number, right: number): number {
    const merged = this.#model.mergeable.get(this.textOf(left) + this.textOf(right));
    if (merged === undefined) return this.#known.add(left, right, 0, -1);
    return this.#known.add(left, right, this.#ranks[merged] as number, merged);
  }
}

/** Equal scores share a rank, so that the leftmost pair goes first. */
function scoreRanks(scores: ArrayLike<number>, count: number): Int32Array {
  const order = Float64Array.from({ length: count }, (_, id) => scores[id] as number);
  const distinct = [...new Set(order.toSorted().reverse())];
  const rankOf = new Map(distinct.map((score, rank) => [score, rank]));
  return Int32Array.from(order, (score) => rankOf.get(score) as number);
}
