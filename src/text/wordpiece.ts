// WordPiece: a word becomes the longest token that it begins with, then the longest that goes on from there, to its end.
// A word that cannot be spelled so is unknown as a whole.

import type { PieceEncoder } from './bpe.ts';

interface WordPieceModel {
  /** Ids of tokens that begin a word, and of those that go on with one, by the text they stand for. */
  readonly beginnings: ReadonlyMap<string, number>;
  readonly continuations: ReadonlyMap<string, number>;
  readonly unknownId: number;
  /** Words of more characters are unknown. */
  readonly longestWord: number;
}

const cachedWords = 20_000;

export function wordPieceEncoder(model: WordPieceModel): PieceEncoder {
  const { beginnings, continuations, unknownId, longestWord } = model;
  const longest = longestKey(beginnings, continuations);
  const cache = new Map<string, readonly number[]>();

  const spell = (word: string): readonly number[] | undefined => {
    const ids: number[] = [];
    for (let from = 0; from < word.length; ) {
      const known = from === 0 ? beginnings : continuations;
      let end = Math.min(word.length, from + longest);
      while (end > from && !known.has(word.slice(from, end))) end--;
      if (end === from) return undefined;
      ids.push(known.get(word.slice(from, end)) as number);
      from = end;
    }
    return ids;
  };

  return (word, into) => {
    // A character has two units at most.
    if (word.length > longestWord && [...word].length > longestWord) {
      into.push(unknownId);
      return undefined;
    }
    let ids = cache.get(word);
    if (ids === undefined) {
      ids = spell(word) ?? [unknownId];
      if (cache.size >= cachedWords) cache.clear();
      cache.set(word, ids);
    }
    for (const id of ids) into.push(id);
    return undefined;
  };
}

function longestKey(...maps: readonly ReadonlyMap<string, number>[]): number {
  let longest = 0;
  for (const map of maps) for (const key of map.keys()) longest = Math.max(longest, key.length);
  return longest;
}
