// What this engine's answers went on with before: by their last tokens, what came next. A table of fixed size for all
// sequences; those of different salts share nothing, so that nobody's answers can be told from another's speed.

import type { Drafter, DraftToken } from './draft.ts';

const ENTRIES = 2 ** 16;
/** Tokens that must agree, most first. */
const MATCH_LENGTHS = [4, 2, 1] as const;
const LONGEST = 4;

export class NgramCache {
  readonly #keys = new Int32Array(ENTRIES);
  readonly #tokens = new Int32Array(ENTRIES);

  /** Undefined where nothing is known. */
  after(key: number): number | undefined {
    const at = key & (ENTRIES - 1);
    return this.#keys[at] === key ? (this.#tokens[at] as number) : undefined;
  }

  learn(key: number, token: number): void {
    const at = key & (ENTRIES - 1);
    this.#keys[at] = key;
    this.#tokens[at] = token;
  }
}

export class NgramCacheDrafter implements Drafter {
  readonly #ngramCache: NgramCache;
  readonly #salt: number;
  /** The last tokens, and those with the extension. */
  readonly #last: Int32Array;
  readonly #extended: Int32Array;

  /** `tokens`: those of the prompt and the answer so far; they teach nothing. */
  constructor(ngramCache: NgramCache, salt: string, tokens: Int32Array) {
    this.#ngramCache = ngramCache;
    this.#salt = saltOf(salt);
    this.#last = new Int32Array(LONGEST);
    this.#last.set(tokens.subarray(-LONGEST), Math.max(0, LONGEST - tokens.length));
    this.#extended = this.#last.slice();
  }

  propose(): DraftToken | undefined {
    for (const matchLength of MATCH_LENGTHS) {
      const token = this.#ngramCache.after(this.#key(this.#extended, matchLength));
      if (token !== undefined) return { token, source: 'n-gram-cache', matchLength };
    }
    return undefined;
  }

  extend(token: number): void {
    shift(this.#extended, token);
  }

  rollBack(): void {
    this.#extended.set(this.#last);
  }

  accept(token: number): void {
    for (const length of MATCH_LENGTHS) this.#ngramCache.learn(this.#key(this.#last, length), token);
    shift(this.#last, token);
    this.#extended.set(this.#last);
  }

  /** Of the last so many. Never 0, which is an empty entry. */
  #key(tokens: Int32Array, length: number): number {
    let hash = mix(this.#salt, length);
    for (let at = LONGEST - length; at < LONGEST; at++) hash = mix(hash, tokens[at] as number);
    return hash === 0 ? 1 : hash;
  }
}

function shift(tokens: Int32Array, token: number): void {
  tokens.copyWithin(0, 1);
  tokens[LONGEST - 1] = token;
}

function saltOf(text: string): number {
  let hash = 1;
  for (let at = 0; at < text.length; at++) hash = mix(hash, text.charCodeAt(at));
  return hash;
}

function mix(hash: number, value: number): number {
  let mixed = Math.imul(hash ^ (value + 0x7f4a7c15), 0x85ebca6b);
  mixed ^= mixed >>> 13;
  mixed = Math.imul(mixed, 0xc2b2ae35);
  return mixed ^ (mixed >>> 16);
}
