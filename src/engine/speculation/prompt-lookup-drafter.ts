// Proposes that the text goes on as it did before: behind the same last tokens, in the prompt, in the answer so far, or in
// the text that the client expects. Each token takes a few steps of constant length, and what is kept is bounded.

import type { Drafter, DraftToken } from './draft.ts';

/** Tokens that must agree; the longer ones are looked for first. */
const LENGTHS = [4, 2, 1] as const;
/** Agreement beyond this is not counted. */
const MOST_AGREEING = 8;
/** With so much agreement the text at hand is believed before the one that is expected. */
const SURE = 4;
/** Entries of a table: of longer texts the places that were seen last are known. */
const MOST_ENTRIES = 2 ** 16;
const LEAST_ENTRIES = 2 ** 8;
/** How far behind a wrong draft token the expected text may go on. */
const WINDOW = 24;
/** Parts the expected text from the prompt: no token. */
const BORDER = -1;

/** Where the text may go on from. */
interface Pointers {
  /** Where the text is repeated from; 0 where it is not. */
  readonly place: number;
  /** How much of the expected text has come. */
  readonly ahead: number;
  /** Whether its last token was as expected. */
  readonly wasRight: boolean;
}

export class PromptLookupDrafter implements Drafter {
  /** The expected text, the prompt, the answer so far, and the extension. */
  #tokens: Int32Array;
  #length = 0;
  /** By hash of the last tokens: where the text went on behind them. */
  #tables: readonly Int32Array[] = [];
  readonly #expected: number;
  #pointers: Pointers = { place: 0, ahead: 0, wasRight: true };
  /** As they were before the first extension. */
  #real: { readonly length: number; readonly pointers: Pointers } | undefined;

  constructor(tokens: ArrayLike<number>, expected: ArrayLike<number> = []) {
    this.#expected = expected.length;
    this.#tokens = new Int32Array(2 * (tokens.length + expected.length + 64));
    this.#resize();
    for (let i = 0; i < expected.length; i++) this.#enter(expected[i] as number);
    if (expected.length > 0) this.#enter(BORDER);
    for (let i = 0; i < tokens.length; i++) this.#enter(tokens[i] as number);
    this.#pointers = { ...this.#pointers, place: this.#find() };
  }

  propose(): DraftToken | undefined {
    const { place, ahead, wasRight } = this.#pointers;
    const agreed = place === 0 ? 0 : this.#agreeing(place);
    if (ahead < this.#expected && agreed < SURE) {
      const token = this.#tokens[ahead] as number;
      return { token, source: 'prediction', matchLength: Number(wasRight) };
    }
    const token = this.#tokens[place] as number;
    if (agreed === 0 || token === BORDER) return undefined;
    return { token, source: 'prompt-lookup', matchLength: agreed };
  }

  extend(token: number): void {
    this.#real ??= { length: this.#length, pointers: this.#pointers };
    this.#follow(token);
  }

  rollBack(): void {
    if (this.#real === undefined) return;
    this.#length = this.#real.length;
    this.#pointers = this.#real.pointers;
    this.#real = undefined;
  }

  accept(token: number): void {
    this.#follow(token);
  }

  #follow(token: number): void {
    const { ahead, wasRight } = this.#followExpected(token);
    const { place: before } = this.#pointers;
    const next = before > 0 && this.#tokens[before] === token ? before + 1 : 0;
    if (this.#real === undefined) this.#enter(token);
    else this.#append(token);
    const found = this.#find();
    const place = next > 0 && (found === 0 || this.#agreeing(next) >= this.#agreeing(found)) ? next : found;
    const isBack = !wasRight && place > 0 && place < this.#expected && this.#agreeing(place) > 1;
    this.#pointers = { place, ahead: isBack ? place : ahead, wasRight };
  }

  /** Where the expected text was wrong, one of its tokens was replaced; where it is wrong again, it goes on close by. */
  #followExpected(token: number): Omit<Pointers, 'place'> {
    const { ahead, wasRight } = this.#pointers;
    if (ahead >= this.#expected) return { ahead, wasRight };
    const isRight = this.#tokens[ahead] === token;
    if (isRight || wasRight) return { ahead: ahead + 1, wasRight: isRight };
    const from = Math.max(0, ahead - 2);
    const found = this.#tokens.subarray(from, Math.min(from + WINDOW, this.#expected)).indexOf(token);
    return { ahead: found < 0 ? ahead : from + found + 1, wasRight: false };
  }

  /** The place behind the last time that the text ended like this; 0 where it never did. */
  #find(): number {
    for (let i = 0; i < LENGTHS.length; i++) {
      const length = LENGTHS[i] as number;
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

  /** For good: the end so far can be found from now on; before, it would have been found as a place of its own. */
  #enter(token: number): void {
    for (let i = 0; i < LENGTHS.length; i++) {
      const length = LENGTHS[i] as number;
      if (this.#length < length) continue;
      (this.#tables[i] as Int32Array)[this.#slot(this.#length, length)] = this.#length;
    }
    this.#append(token);
  }

  #append(token: number): void {
    if (this.#length === this.#tokens.length) {
      const grown = new Int32Array(2 * this.#length);
      grown.set(this.#tokens);
      this.#tokens = grown;
      this.#resize();
    }
    this.#tokens[this.#length++] = token;
  }

  #resize(): void {
    const wanted = 2 ** Math.ceil(Math.log2(this.#tokens.length));
    const entries = Math.min(MOST_ENTRIES, Math.max(LEAST_ENTRIES, wanted));
    if (this.#tables[0]?.length === entries) return;
    this.#tables = LENGTHS.map(() => new Int32Array(entries));
    const end = this.#real?.length ?? this.#length;
    for (const [i, length] of LENGTHS.entries()) {
      const table = this.#tables[i] as Int32Array;
      for (let place = length; place < end; place++) table[this.#slot(place, length)] = place;
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
