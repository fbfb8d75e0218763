// Tokens of the key's limits for answers whose request sets no length. They are held as the answers grow, so that a long
// answer takes from other requests of its key only what it uses, and ends where nothing is left.

import type { Permit } from './key-limiter.ts';

const GROWTH_TOKENS = 256;

export class AnswerBudget {
  readonly #permit: Pick<Permit, 'grow'>;
  readonly #nowMs: () => number;
  #left: number;
  #isSpent = false;

  constructor(heldTokens: number, permit: Pick<Permit, 'grow'>, nowMs: () => number) {
    this.#left = heldTokens;
    this.#permit = permit;
    this.#nowMs = nowMs;
  }

  get isSpent(): boolean {
    return this.#isSpent;
  }

  /** Takes a token of an answer; false where the answer must end without it. */
  take(): boolean | Promise<boolean> {
    if (this.#left > 0) return this.#count();
    if (this.#isSpent) return false;
    const grown = this.#permit.grow(GROWTH_TOKENS, this.#nowMs());
    return typeof grown === 'number' ? this.#grow(grown) : grown.then((tokens) => this.#grow(tokens));
  }

  #grow(tokens: number): boolean {
    this.#left += tokens;
    if (this.#left > 0) return this.#count();
    this.#isSpent = true;
    return false;
  }

  #count(): true {
    this.#left--;
    return true;
  }
}

/** Shortens the longest answers alike, until all together have no more than this many tokens. */
export function shareTokens(lengths: readonly number[], tokens: number): number[] {
  let left = tokens;
  const sorted = [...lengths].sort((a, b) => a - b);
  for (const [at, length] of sorted.entries()) {
    const even = Math.max(0, Math.floor(left / (sorted.length - at)));
    if (length > even) return lengths.map((one) => Math.min(one, even));
    left -= length;
  }
  return [...lengths];
}
