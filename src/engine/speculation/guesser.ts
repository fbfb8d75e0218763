// Guesses for one sequence, and how far they can be trusted.

import type { Drafter, Guess } from './drafter.ts';
import { Rates } from './rates.ts';

/** What may be guessed: where the answer goes on, by its grammar and its ends. */
export interface Horizon {
  /** False where the token cannot come, or where nothing would follow it. */
  accept(token: number): boolean;
  /** Tokens that must come next, as far as that is known. */
  forced(most: number): readonly number[];
}

/** More are not worth looking for. */
const MOST_GUESSES = 31;
/** Nor those that are so unlikely. */
const LEAST_CHANCE = 0.02;

export class Guesser {
  /** Guesses that were computed. */
  accepted = 0;
  rejected = 0;
  readonly #drafters: readonly Drafter[];
  readonly #rates: Rates;
  #guessed: readonly Guess[] = [];
  #taken = 0;

  constructor(drafters: readonly Drafter[], engineRates: Rates) {
    this.#drafters = drafters;
    this.#rates = new Rates(engineRates);
  }

  /** Looks for up to `most` guesses; gives the chance of each that it and all before it are right. */
  look(horizon: Horizon, most: number): number[] {
    this.#taken = 0;
    const forced = new ForcedText(horizon);
    const guessed: Guess[] = [];
    const chances: number[] = [];
    for (let chance = 1; guessed.length < Math.min(most, MOST_GUESSES); ) {
      const guess = this.#likeliest(horizon, forced);
      chance *= guess === undefined ? 0 : this.#rates.of(guess.kind);
      if (guess === undefined || chance < LEAST_CHANCE) break;
      guessed.push(guess);
      chances.push(chance);
      forced.accept(guess.token);
      for (const drafter of this.#drafters) drafter.imagine(guess.token);
    }
    for (const drafter of this.#drafters) drafter.forget();
    this.#guessed = guessed;
    return chances;
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
    for (const drafter of this.#drafters) for (const token of tokens) drafter.accept(token);
  }

  #likeliest(horizon: Horizon, forced: ForcedText): Guess | undefined {
    const guesses = [...this.#drafters.map((drafter) => drafter.guess()), forced.guess()];
    return guesses
      .filter((guess) => guess !== undefined)
      .sort((a, b) => this.#rates.of(b.kind) - this.#rates.of(a.kind))
      .find(({ token }) => horizon.accept(token));
  }
}

/** What a grammar leaves no choice about, looked up again where it ends or something else is guessed. */
class ForcedText {
  readonly #horizon: Horizon;
  #tokens: readonly number[] | undefined;

  constructor(horizon: Horizon) {
    this.#horizon = horizon;
  }

  guess(): Guess | undefined {
    this.#tokens ??= this.#horizon.forced(MOST_GUESSES);
    const [token] = this.#tokens;
    return token === undefined ? undefined : { token, kind: 'forced' };
  }

  accept(token: number): void {
    const [first, second] = this.#tokens ?? [];
    this.#tokens = first === token && second !== undefined ? this.#tokens?.slice(1) : undefined;
  }
}
