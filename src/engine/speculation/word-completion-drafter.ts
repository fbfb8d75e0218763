// Proposes that a word which has begun is one of the prompt's, whatever stands before it: values of JSON are words of a text
// after a quote instead of a space, and therefore other tokens. Needs to know what tokens spell.

import { longestTokens, type VocabularyTables } from '../../grammar/vocabulary.ts';
import type { DraftToken } from '../scheduler/draft.ts';
import type { Drafter } from './drafter.ts';

/** Of a prompt, the last bytes that are searched. */
const MOST_BYTES = 2 ** 16;
const LONGEST_WORD = 64;
/** First bytes of a word by which it is found. */
const LONGEST_KEY = 3;

export class WordCompletionDrafter implements Drafter {
  readonly #vocabulary: VocabularyTables;
  readonly #text: Uint8Array;
  /** By first bytes: where the last word with them begins. */
  readonly #places = new Map<number, number>();
  /** The word at hand so far, and the same with the extension. */
  #word = new Uint8Array(0);
  #ahead = this.#word;

  /** Of `tokens` the first `promptLength` are the prompt. */
  constructor(vocabulary: VocabularyTables, tokens: Int32Array, promptLength: number) {
    this.#vocabulary = vocabulary;
    this.#text = lastBytes(vocabulary, tokens.subarray(0, promptLength));
    this.#index();
    for (const token of tokens.subarray(promptLength)) this.accept(token);
  }

  propose(end?: number): DraftToken | undefined {
    const { length } = this.#ahead;
    const matchLength = Math.min(LONGEST_KEY, length);
    if (length === 0 || length > LONGEST_WORD) return undefined;
    const place = this.#places.get(keyOf(this.#ahead, 0, matchLength));
    if (place === undefined || !this.#ahead.every((byte, at) => this.#text[place + at] === byte))
      return undefined;
    const [token] = longestTokens(this.#restAt(place + length), this.#vocabulary);
    if (token !== undefined) return { token, source: 'word-completion', matchLength };
    return end === undefined ? undefined : { token: end, source: 'word-end', matchLength: 0 };
  }

  extend(token: number): void {
    this.#ahead = continued(this.#ahead, bytesOf(this.#vocabulary, token));
  }

  rollBack(): void {
    this.#ahead = this.#word;
  }

  accept(token: number): void {
    this.#word = continued(this.#word, bytesOf(this.#vocabulary, token));
    this.#ahead = this.#word;
  }

  /** What is left of the word that goes on there. */
  #restAt(from: number): Uint8Array {
    let end = from;
    while (end < this.#text.length && isWordByte(this.#text[end] as number)) end++;
    return this.#text.subarray(from, end);
  }

  #index(): void {
    let start = 0;
    for (let at = 0; at < this.#text.length; at++) {
      if (!isWordByte(this.#text[at] as number)) start = at + 1;
      else if (at - start < LONGEST_KEY) this.#places.set(keyOf(this.#text, start, at + 1), start);
    }
  }
}

/** A word after further bytes, which may begin another one; one that is too long is cut. */
function continued(word: Uint8Array, bytes: Uint8Array): Uint8Array<ArrayBuffer> {
  const border = bytes.findLastIndex((byte) => !isWordByte(byte));
  const own = border < 0 ? [...word, ...bytes] : bytes.subarray(border + 1);
  return Uint8Array.from(own.slice(0, LONGEST_WORD + 1));
}

function keyOf(bytes: ArrayLike<number>, start: number, end: number): number {
  let key = 1;
  for (let at = start; at < end; at++) key = 256 * key + (bytes[at] as number);
  return key;
}

/** Letters and digits, and all that is not ASCII. */
function isWordByte(byte: number): boolean {
  const letter = byte | 0x20;
  return (letter >= 0x61 && letter <= 0x7a) || (byte >= 0x30 && byte <= 0x39) || byte >= 0x80;
}

/** Nothing, where it is not known what a token spells. */
function bytesOf({ size, starts, bytes }: VocabularyTables, token: number): Uint8Array {
  return token < size ? bytes.subarray(starts[token], starts[token + 1]) : new Uint8Array(0);
}

function lastBytes(vocabulary: VocabularyTables, tokens: Int32Array): Uint8Array {
  const text = new Uint8Array(MOST_BYTES);
  let start = text.length;
  for (let at = tokens.length - 1; at >= 0; at--) {
    const bytes = bytesOf(vocabulary, tokens[at] as number);
    if (bytes.length > start) break;
    start -= bytes.length;
    text.set(bytes, start);
  }
  return text.subarray(start);
}
