// Unigram: of all ways to divide a piece into tokens, the one with the best sum of scores. A character that no token has is
// unknown; unknown ones that follow each other become one token, or all their bytes where the vocabulary has them.

import { byteTokenIds, LONG_PIECE, type PieceEncoder } from './bpe.ts';
import { finish, STEP_SIZE, type Steps } from './steps.ts';

interface UnigramModel {
  /** Tokens that texts become: neither control tokens nor bytes. */
  readonly ids: ReadonlyMap<string, number>;
  readonly scores: ArrayLike<number>;
  readonly unknownId: number;
  /** Of the byte tokens, where characters without a token become them. */
  readonly byteIds?: ReadonlyMap<string, number> | undefined;
}

/** As far below the worst token as SentencePiece puts what is unknown. */
const UNKNOWN_PENALTY = 10;
const cachedPieceLength = 48;
const cachedPieces = 20_000;

export function unigramEncoder(model: UnigramModel): PieceEncoder {
  const { ids, scores } = model;
  let [longest, worst] = [1, Number.POSITIVE_INFINITY];
  for (const [token, id] of ids) {
    longest = Math.max(longest, token.length);
    worst = Math.min(worst, scores[id] as number);
  }
  const unknownScore = worst - UNKNOWN_PENALTY;
  const bytesOf = model.byteIds === undefined ? undefined : byteTokenIds(model.byteIds);
  const cache = new Map<string, readonly number[]>();

  function* encode(piece: string, into: number[]): Steps {
    const size = piece.length;
    const best = new Float64Array(size + 1).fill(Number.NEGATIVE_INFINITY);
    const from = new Int32Array(size + 1);
    const tokens = new Int32Array(size + 1);
    best[0] = 0;
    const offer = (start: number, end: number, token: number, score: number) => {
      const sum = (best[start] as number) + score;
      if (sum <= (best[end] as number)) return;
      best[end] = sum;
      from[end] = start;
      tokens[end] = token;
    };
    for (let start = 0, next = 0; start < size; start = next) {
      next = start + ((piece.codePointAt(start) as number) > 0xffff ? 2 : 1);
      let isKnown = false;
      for (let end = next; end <= size && end - start <= longest; end++) {
        const token = ids.get(piece.slice(start, end));
        if (token === undefined) continue;
        isKnown ||= end === next;
        offer(start, end, token, scores[token] as number);
      }
      if (!isKnown) offer(start, next, -1, unknownScore);
      if (start % STEP_SIZE > next % STEP_SIZE) yield;
    }
    push(piece, from, tokens, into);
  }

  function push(piece: string, from: Int32Array, tokens: Int32Array, into: number[]): void {
    const ends: number[] = [];
    for (let end = piece.length; end > 0; end = from[end] as number) ends.push(end);
    let unknownFrom: number | undefined;
    const unknown = (end: number) => {
      if (unknownFrom === undefined) return;
      const bytes = [...piece.slice(unknownFrom, end)].map((one) => bytesOf?.(one));
      if (bytes.every((one) => one !== undefined)) into.push(...bytes.flat());
      else into.push(model.unknownId);
      unknownFrom = undefined;
    };
    for (const end of ends.reverse()) {
      const start = from[end] as number;
      if (tokens[end] === -1) unknownFrom ??= start;
      else {
        unknown(start);
        into.push(tokens[end] as number);
      }
    }
    unknown(piece.length);
  }

  return (piece, into) => {
    if (piece.length > LONG_PIECE) return encode(piece, into);
    let found = cache.get(piece);
    if (found === undefined) {
      const own: number[] = [];
      finish(encode(piece, own));
      found = own;
      if (piece.length <= cachedPieceLength) {
        if (cache.size >= cachedPieces) cache.clear();
        cache.set(piece, found);
      }
    }
    for (const id of found) into.push(id);
    return undefined;
  };
}
