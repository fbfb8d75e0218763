// WordPiece: a word becomes the longest token at its beginning, then the longest continuations; otherwise the word is
// unknown. With BERT's cleaning, folding and splitting of text.

import type { PieceEncoder } from './bpe.ts';
import { splitBy, splitInTurn, type TextSplitter } from './text-splitter.ts';

interface WordPieceModel {
  readonly beginnings: ReadonlyMap<string, number>;
  readonly continuations: ReadonlyMap<string, number>;
  readonly unknownId: number;
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

interface BertFolding {
  /** Removes control characters, turns whitespace to spaces. */
  readonly cleans: boolean;
  readonly partsIdeographs: boolean;
  readonly stripsAccents: boolean;
  readonly lowercases: boolean;
}

const controls = /[\0\ufffd]|(?![\t\n\r])[\p{Cc}\p{Cf}\p{Co}]/gu;
const whitespace = /\p{White_Space}/gu;
/** The blocks of the first BERT. */
const ideographs =
  /[\u4e00-\u9fff\u3400-\u4dbf\u{20000}-\u{2a6df}\u{2a700}-\u{2b73f}\u{2b740}-\u{2b81f}\u{2b920}-\u{2ceaf}\uf900-\ufaff\u{2f800}-\u{2fa1f}]/gu;

export const punctuation = /[\p{P}$+<=>^`|~]/gu;

export function bertFolder(folding: BertFolding): (text: string) => string {
  const { cleans, partsIdeographs, stripsAccents, lowercases } = folding;
  const steps: ((text: string) => string)[] = [];
  if (cleans) steps.push((text) => text.replace(controls, '').replace(whitespace, ' '));
  if (partsIdeographs) steps.push((text) => text.replace(ideographs, ' $& '));
  if (stripsAccents) steps.push((text) => text.normalize('NFD').replace(/\p{Mn}/gu, ''));
  // One by one: a final sigma is like any other.
  if (lowercases) steps.push((text) => text.replace(/\p{CWL}/gu, (one) => one.toLowerCase()));
  return (text) => steps.reduce((result, step) => step(result), text);
}

export const bertWords: TextSplitter = splitInTurn([
  splitBy(whitespace, 'Removed'),
  splitBy(punctuation, 'Isolated'),
]);
