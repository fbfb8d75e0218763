// Guesses that the text goes on as it did before: behind the same last tokens, in the prompt, in the answer so far, or in
// the text that the client expects. Each token takes a few steps of constant length, and what is kept is bounded.

import { type Draft, type Drafter, type DraftKind, noDraft } from './drafter.ts';

/** Tokens that must agree; the longer ones are looked for first. */
const LENGTHS = [4, 2] as const;
/** Agreement beyond this is not counted. */
const MOST_AGREEING = 8;
/** Entries of a table: of longer texts the places that were seen last are known. */
const MOST_ENTRIES = 2 ** 16;
const LEAST_ENTRIES = 2 ** 8;
/** How far behind a wrong guess the expected text may go on. */
const WINDOW = 24;
/** Parts the expected text from the prompt: no token. */
const BORDER = -1;

export class TextDrafter implements Drafter {
  #tokens: Int32Array;
  #length = 0;
  /** By hash of the last tokens: where the text went on behind them. */
  #tables: readonly Int32Array[] = [];
  /** Tokens of the expected text, which stands in front. */
  readonly #expected: number;
  /** The place in the text whose tokens come next if it repeats itself; 0 where it does not. */
  #place = 0;
  /** Where the expected text goes on, as far as can be told. */
  #ahead = 0;
  #wasRight = true;

  constructor(tokens: Int32Array, expected: readonly number[] = []) {
    this.#expected = expected.length;
    this.#tokens = new Int32Array(2 * (tokens.length + expected.length + 16));
    this.#resize();
    for (const token of expected) this.#push(token);
    if (expected.length > 0) this.#push(BORDER);
    for (const token of tokens) this.#push(token);
    this.#place = this.#find();
  }

  guess(most: number): Draft {
    const agreed = this.#place === 0 ? 0 : this.#agreeing(this.#place);
    if (this.#ahead < this.#expected && agreed < 4) {
      const tokens = this.#from(this.#ahead, Math.min(most, this.#expected - this.#ahead));
      return { tokens, kind: this.#wasRight ? 'expected' : 'again' };
    }
    if (this.#place === 0) return noDraft;
    // Where the text repeats itself to its end, it may do so once more.
    const period = this.#length - this.#place;
    const tokens = Array.from({ length: most }, (_, i) => this.#tokens[this.#place + (i % period)] as number);
    const border = tokens.indexOf(BORDER);
    return { tokens: border < 0 ? tokens : tokens.slice(0, border), kind: kindOf(agreed) };
  }

  accept(token: number): void {
    if (this.#ahead < this.#expected) this.#follow(token);
    const repeats = this.#place > 0 && this.#tokens[this.#place] === token;
    const next = repeats ? this.#place + 1 : 0;
    this.#push(token);
    const found = this.#find();
    this.#place = next > 0 && (found === 0 || this.#agreeing(next) >= this.#agreeing(found)) ? next : found;
    const isExpected = this.#place > 0 && this.#place < this.#expected;
    if (isExpected && !this.#wasRight) this.#ahead = this.#place;
  }

  /** Where the expected text was wrong, one of its tokens was replaced; where it is wrong again, it goes on close by. */
  #follow(token: number): void {
    const isRight = this.#tokens[this.#ahead] === token;
    if (isRight || this.#wasRight) this.#ahead += 1;
    else {
      const from = Math.max(0, this.#ahead - 2);
      const found = this.#tokens.subarray(from, Math.min(from + WINDOW, this.#expected)).indexOf(token);
      if (found >= 0) this.#ahead = from + found + 1;
    }
    this.#wasRight = isRight;
  }

  #from(place: number, count: number): number[] {
    return Array.from(this.#tokens.subarray(place, place + count));
  }

  /** The place behind the last time that the text ended like this; 0 where it never did. */
  #find(): number {
    for (const [i, length] of LENGTHS.entries()) {
      if (this.#length < length) continue;
      const place = (this.#tables[i] as Int32Array)[this.#slot(this.#length, length)] as number;
      if (place > 0 && place < this.#length && this.#agreeing(place) >= length) return place;
    }
    return 0;
  }

  /** Tokens before the place that are those before the end. */
  #agreeing(place: number): number {
    let count = 0;
    while (
      count < MOST_AGREEING &&
      count < place &&
      this.#tokens[place - 1 - count] === this.#tokens[this.#length - 1 - count]
    ) {
      count += 1;
    }
    return count;
  }

  #push(token: number): void {
    // The end is entered only now, or it would be found as a place of its own.
    for (const [i, length] of LENGTHS.entries()) {
      if (this.#length >= length)
        (this.#tables[i] as Int32Array)[this.#slot(this.#length, length)] = this.#length;
    }
    if (this.#length === this.#tokens.length) {
      const grown = new Int32Array(2 * this.#length);
      grown.set(this.#tokens);
      this.#tokens = grown;
      this.#resize();
    }
    this.#tokens[this.#length++] = token;
  }

  #resize(): void {
    const entries = Math.min(
      MOST_ENTRIES,
      Math.max(LEAST_ENTRIES, 2 ** Math.ceil(Math.log2(this.#tokens.length))),
    );
    if (this.#tables[0]?.length === entries) return;
    this.#tables = LENGTHS.map(() => new Int32Array(entries));
    for (const [i, length] of LENGTHS.entries()) {
      const table = this.#tables[i] as Int32Array;
      for (let end = length; end < this.#length; end++) table[this.#slot(end, length)] = end;
    }
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

function kindOf(agreed: number): DraftKind {
  if (agreed >= MOST_AGREEING) return 'after8';
  if (agreed >= 4) return 'after4';
  return agreed === 3 ? 'after3' : 'after2';
}
