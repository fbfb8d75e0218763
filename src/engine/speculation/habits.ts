// What this engine's answers went on with before: by their last tokens, what came next. A table of fixed size for all
// sequences; those of different salts share nothing, so that nobody's answers can be told from another's speed.

import type { Drafter, Guess } from './drafter.ts';

const ENTRIES = 2 ** 16;
/** Tokens that must agree, most first. */
const CONTEXTS = [
  { length: 4, kind: 'habit4' },
  { length: 2, kind: 'habit2' },
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
  #last: readonly number[];
  #imagined: readonly number[];

  /** `tokens`: those of the prompt and the answer so far; they teach nothing. */
  constructor(habits: Habits, salt: string, tokens: Int32Array) {
    this.#habits = habits;
    this.#salt = hashOf(
      Array.from(salt, (letter) => letter.codePointAt(0) as number),
      1,
    );
    this.#last = [...tokens.subarray(-LONGEST)];
    this.#imagined = this.#last;
  }

  guess(): Guess | undefined {
    for (const { length, kind } of CONTEXTS) {
      const token = this.#habits.after(this.#key(this.#imagined, length));
      if (token !== undefined) return { token, kind };
    }
    return undefined;
  }

  imagine(token: number): void {
    this.#imagined = [...this.#imagined.slice(1 - LONGEST), token];
  }

  forget(): void {
    this.#imagined = this.#last;
  }

  accept(token: number): void {
    for (const { length } of CONTEXTS) this.#habits.learn(this.#key(this.#last, length), token);
    this.#last = [...this.#last.slice(1 - LONGEST), token];
    this.#imagined = this.#last;
  }

  #key(tokens: readonly number[], length: number): number {
    return hashOf(tokens.slice(-length), this.#salt + length);
  }
}

/** Never 0, which is an empty entry. */
function hashOf(values: readonly number[], seed: number): number {
  let hash = seed;
  for (const value of values) {
    hash = Math.imul(hash ^ value, 0x9e3779b1);
    hash ^= hash >>> 15;
  }
  return hash === 0 ? 1 : hash;
}
