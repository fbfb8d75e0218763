// Proposes that the text goes on as it did after the same last tokens before, in the prompt or in the answer so far, or as the
// client expects (`prediction`). Each token takes a few steps of constant length, and what is kept is bounded.

import type { DraftToken } from '../scheduler/draft.ts';
import type { Drafter } from './drafter.ts';

/** Tokens that must match; the longer matches are looked for first. */
const LENGTHS = [4, 2, 1] as const;
/** A match beyond this is not counted. */
const MAX_MATCH = 8;
/** From this match length on, the text at hand is believed before the one that is expected. */
const SURE = 4;
/** Entries of a table: of longer texts the places that were seen last are known. */
const MOST_ENTRIES = 2 ** 16;
const LEAST_ENTRIES = 2 ** 8;
/** How far after a rejected token the expected text may go on. */
const WINDOW = 24;
/** Parts the expected text from the prompt: no token. */
const BORDER = -1;

/** An end of the text, and where it may go on from. */
interface Cursor {
  readonly length: number;
  /** Where the text is repeated from; 0 where it is not. */
  readonly place: number;
  /** How much of the expected text has come. */
  readonly expected: number;
  /** Whether its last token was as expected. */
  readonly wasRight: boolean;
}

export class PromptLookupDrafter implements Drafter {
  /** The expected text, the prompt, the answer so far, and the extension. */
  #tokens: Int32Array;
  /** By hash of the last tokens: where the text went on after them. */
  #tables: readonly Int32Array[] = [];
  readonly #expectedLength: number;
  /** Without the extension, and with it. */
  #cursor: Cursor = { length: 0, place: 0, expected: 0, wasRight: true };
  #ahead = this.#cursor;

  constructor(tokens: ArrayLike<number>, expected: ArrayLike<number> = []) {
    this.#expectedLength = expected.length;
    this.#tokens = new Int32Array(2 * (tokens.length + expected.length + 64));
    this.#resize(0);
    let length = 0;
    for (const text of [expected, expected.length > 0 ? [BORDER] : [], tokens]) {
      for (let i = 0; i < text.length; i++) {
        this.#index(length);
        this.#tokens[length++] = text[i] as number;
      }
    }
    this.#cursor = { ...this.#cursor, length, place: this.#find(length) };
    this.#ahead = this.#cursor;
  }

  propose(): DraftToken | undefined {
    const { length, place, expected, wasRight } = this.#ahead;
    const matchLength = this.#matchLength(place, length);
    if (expected < this.#expectedLength && matchLength < SURE) {
      const token = this.#tokens[expected] as number;
      return { token, source: 'prediction', matchLength: Number(wasRight) };
    }
    const token = this.#tokens[place] as number;
    if (matchLength === 0 || token === BORDER) return undefined;
    return { token, source: 'prompt-lookup', matchLength };
  }

  extend(token: number): void {
    this.#ahead = this.#follow(this.#ahead, token);
  }

  rollBack(): void {
    this.#ahead = this.#cursor;
  }

  accept(token: number): void {
    // Before, the end would have been found as a place of its own.
    this.#index(this.#cursor.length);
    this.#cursor = this.#follow(this.#cursor, token);
    this.#ahead = this.#cursor;
  }

  #follow(cursor: Cursor, token: number): Cursor {
    const { expected, wasRight } = this.#followExpected(cursor, token);
    const next = cursor.place > 0 && this.#tokens[cursor.place] === token ? cursor.place + 1 : 0;
    this.#write(cursor.length, token);
    const length = cursor.length + 1;
    const found = this.#find(length);
    const place =
      next > 0 && this.#matchLength(next, length) >= this.#matchLength(found, length) ? next : found;
    const isBack =
      !wasRight && place > 0 && place < this.#expectedLength && this.#matchLength(place, length) > 1;
    return { length, place, expected: isBack ? place : expected, wasRight };
  }

  /** Where the expected text was wrong, one of its tokens was replaced; where it is wrong again, it goes on close by. */
  #followExpected(cursor: Cursor, token: number): Pick<Cursor, 'expected' | 'wasRight'> {
    const { expected, wasRight } = cursor;
    if (expected >= this.#expectedLength) return { expected, wasRight };
    const isRight = this.#tokens[expected] === token;
    if (isRight || wasRight) return { expected: expected + 1, wasRight: isRight };
    const from = Math.max(0, expected - 2);
    const found = this.#tokens.subarray(from, Math.min(from + WINDOW, this.#expectedLength)).indexOf(token);
    return { expected: found < 0 ? expected : from + found + 1, wasRight: false };
  }

  /** The place after the last time that the text ended as it does at `end`; 0 where it never did. */
  #find(end: number): number {
    for (let i = 0; i < LENGTHS.length; i++) {
      const length = LENGTHS[i] as number;
      if (end < length) continue;
      const place = (this.#tables[i] as Int32Array)[this.#slot(end, length)] as number;
      if (place > 0 && place < end && this.#matchLength(place, end) >= length) return place;
    }
    return 0;
  }

  /** Tokens before the place that are those before the end. */
  #matchLength(place: number, end: number): number {
    const most = Math.min(MAX_MATCH, place);
    let count = 0;
    while (count < most && this.#tokens[place - 1 - count] === this.#tokens[end - 1 - count]) count += 1;
    return count;
  }

  /** The text up to `end` can be found from now on. */
  #index(end: number): void {
    for (let i = 0; i < LENGTHS.length; i++) {
      const length = LENGTHS[i] as number;
      if (end >= length) (this.#tables[i] as Int32Array)[this.#slot(end, length)] = end;
    }
  }

  #write(at: number, token: number): void {
    if (at === this.#tokens.length) {
      const grown = new Int32Array(2 * at);
      grown.set(this.#tokens);
      this.#tokens = grown;
      this.#resize(this.#cursor.length);
    }
    this.#tokens[at] = token;
  }

  /** `end`: all before it can be found again. */
  #resize(end: number): void {
    const wanted = 2 ** Math.ceil(Math.log2(this.#tokens.length));
    const entries = Math.min(MOST_ENTRIES, Math.max(LEAST_ENTRIES, wanted));
    if (this.#tables[0]?.length === entries) return;
    this.#tables = LENGTHS.map(() => new Int32Array(entries));
    for (let place = 1; place < end; place++) this.#index(place);
  }

  /** Of the tokens before `end`. */
  #slot(end: number, length: number): number {
    let hash = length;
    for (let at = end - length; at < end; at++) {
      hash = Math.imul(hash ^ (this.#tokens[at] as number), 0x9e3779b1);
      hash ^= hash >>> 15;
    }
    return hash & ((this.#tables[0] as Int32Array).length - 1);
  }
}
