// What this engine's answers went on with before: by their last tokens, what came next. A table of fixed size for all
// sequences; those of different salts share nothing, so that nobody's answers can be told from another's speed.

import type { Drafter, Guess } from './drafter.ts';

const ENTRIES = 2 ** 16;
/** Tokens that must agree, most first. */
const CONTEXTS = [
  { length: 4, kind: 'habit4' },
  { length: 2, kind: 'habit2' },
  { length: 1, kind: 'habit1' },
] as const;
const LONGEST = 4;

export class Habits {
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

export class HabitDrafter implements Drafter {
  readonly #habits: Habits;
  readonly #salt: number;
  /** The last tokens, and those with what was imagined. */
  readonly #last: Int32Array;
  readonly #imagined: Int32Array;

  /** `tokens`: those of the prompt and the answer so far; they teach nothing. */
  constructor(habits: Habits, salt: string, tokens: Int32Array) {
    this.#habits = habits;
    this.#salt = saltOf(salt);
    this.#last = new Int32Array(LONGEST);
    this.#last.set(tokens.subarray(-LONGEST), Math.max(0, LONGEST - tokens.length));
    this.#imagined = this.#last.slice();
  }

  guess(): Guess | undefined {
    for (const { length, kind } of CONTEXTS) {
      const token = this.#habits.after(this.#key(this.#imagined, length));
      if (token !== undefined) return { token, kind };
    }
    return undefined;
  }

  imagine(token: number): void {
    shift(this.#imagined, token);
  }

  forget(): void {
    this.#imagined.set(this.#last);
  }

  accept(token: number): void {
    for (const { length } of CONTEXTS) this.#habits.learn(this.#key(this.#last, length), token);
    shift(this.#last, token);
    this.#imagined.set(this.#last);
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
