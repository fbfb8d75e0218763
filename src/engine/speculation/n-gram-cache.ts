// The n-gram cache: what came next in this engine's answers, by the last tokens. A table of fixed size for all sequences; those
// of different salts share nothing, so that the speed of an answer reveals nothing of another account's.

import type { DraftToken } from '../scheduler/draft.ts';
import type { Drafter } from './drafter.ts';

const ENTRIES = 2 ** 16;
/** Tokens that must match, most first. */
const MATCH_LENGTHS = [4, 2, 1] as const;
const LONGEST = 4;

export class NgramCache {
  readonly #keys = new Int32Array(ENTRIES);
  readonly #tokens = new Int32Array(ENTRIES);

  /** Undefined where nothing is known. */
  get(key: number): number | undefined {
    const at = key & (ENTRIES - 1);
    return this.#keys[at] === key ? (this.#tokens[at] as number) : undefined;
  }

  set(key: number, token: number): void {
    const at = key & (ENTRIES - 1);
    this.#keys[at] = key;
    this.#tokens[at] = token;
  }
}

export class NgramCacheDrafter implements Drafter {
  readonly #cache: NgramCache;
  readonly #salt: number;
  /** The last tokens, and the last with the extension. */
  #last: readonly number[];
  #ahead: readonly number[];

  /** `tokens`: those of the prompt and the answer so far; they teach nothing. */
  constructor(cache: NgramCache, salt: string, tokens: Int32Array) {
    this.#cache = cache;
    this.#salt = saltOf(salt);
    this.#last = [...new Array<number>(LONGEST).fill(0), ...tokens.subarray(-LONGEST)].slice(-LONGEST);
    this.#ahead = this.#last;
  }

  propose(): DraftToken | undefined {
    for (const matchLength of MATCH_LENGTHS) {
      const token = this.#cache.get(this.#key(this.#ahead, matchLength));
      if (token !== undefined) return { token, source: 'n-gram-cache', matchLength };
    }
    return undefined;
  }

  extend(token: number): void {
    this.#ahead = [...this.#ahead.slice(1), token];
  }

  rollBack(): void {
    this.#ahead = this.#last;
  }

  accept(token: number): void {
    for (const length of MATCH_LENGTHS) this.#cache.set(this.#key(this.#last, length), token);
    this.#last = [...this.#last.slice(1), token];
    this.#ahead = this.#last;
  }

  /** Of the last `length` tokens. Never 0, which is an empty entry. */
  #key(tokens: readonly number[], length: number): number {
    let hash = mix(this.#salt, length);
    for (let at = LONGEST - length; at < LONGEST; at++) hash = mix(hash, tokens[at] as number);
    return hash === 0 ? 1 : hash;
  }
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
