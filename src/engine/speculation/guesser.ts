// Guesses for one sequence, and how far they can be trusted.

import type { Draft, Drafter, DraftKind } from './drafter.ts';
import { Rates } from './rates.ts';

/** What may be guessed: where the answer goes on, by its grammar and its ends. */
export interface Horizon {
  /** False where the token cannot come, or where nothing would follow it. */
  accept(token: number): boolean;
  /** Tokens that must come next, as far as that is known. */
  forced(most: number): readonly number[];
}

interface Guessed {
  readonly token: number;
  readonly kind: DraftKind;
}

/** More are not worth looking for. */
export const MOST_GUESSES = 31;

export class Guesser {
  /** Guesses that were computed. */
  accepted = 0;
  rejected = 0;
  readonly #drafter: Drafter;
  readonly #rates: Rates;
  #guessed: readonly Guessed[] = [];
  #taken = 0;

  constructor(drafter: Drafter, engineRates: Rates) {
    this.#drafter = drafter;
    this.#rates = new Rates(engineRates);
  }

  /** Looks for up to `most` guesses; gives the chance of each that it and all before it are right. */
  look(horizon: Horizon, most: number): number[] {
    this.#taken = 0;
    this.#guessed = this.#fitting(horizon, Math.min(most, MOST_GUESSES));
    let chance = 1;
    return this.#guessed.map(({ kind }) => {
      chance *= this.#rates.of(kind);
      return chance;
    });
  }

  /** The first of those guesses: they are computed. */
  take(count: number): number[] {
    this.#taken = count;
    return this.#guessed.slice(0, count).map(({ token }) => token);
  }

  /** Fewer of them than were taken are computed. */
  limit(count: number): void {
    this.#taken = Math.min(this.#taken, count);
  }

  /** What came: one token at least. Where nothing was computed, the first guess still shows what it would have been worth. */
  learn(tokens: readonly number[]): void {
    const looked = this.#guessed.slice(0, Math.max(1, this.#taken));
    let right = 0;
    for (const { token, kind } of looked) {
      // Behind the last token that came nothing is known.
      if (right >= tokens.length) break;
      const isRight = token === tokens[right];
      this.#rates.learn(kind, Number(isRight), !isRight);
      if (!isRight) break;
      right += 1;
    }
    const accepted = Math.min(right, this.#taken);
    this.accepted += accepted;
    this.rejected += this.#taken - accepted;
    this.#guessed = [];
    this.#taken = 0;
    for (const token of tokens) this.#drafter.accept(token);
  }

  /** What the drafter says, or what must come where that is more likely; then whatever must come behind it. */
  #fitting(horizon: Horizon, most: number): Guessed[] {
    const guessed: Guessed[] = [];
    const add = ({ tokens, kind }: Draft) => {
      for (const token of tokens) {
        if (guessed.length >= most || !horizon.accept(token)) return;
        guessed.push({ token, kind });
      }
    };
    const drafted = this.#drafter.guess(most);
    const forced: Draft = { tokens: horizon.forced(most), kind: 'forced' };
    if (forced.tokens.length === 0 || this.#rates.of(drafted.kind) > this.#rates.of('forced')) add(drafted);
    if (guessed.length === 0) add(forced);
    else if (guessed.length < most) add({ tokens: horizon.forced(most - guessed.length), kind: 'forced' });
    return guessed;
  }
}
