// Guesses for one sequence, and how far they can be trusted.

import type { LikelyTokens } from '../../grammar/matcher.ts';
import type { Drafter, Guess, GuessKind } from './drafter.ts';
import { Rates } from './rates.ts';

/** What may be guessed: where the answer goes on, by its grammar and its ends. */
export interface Horizon {
  /** False where the token cannot come, or where nothing would follow it. */
  accept(token: number): boolean;
  /** Tokens that come next, as far as there is but one text beside white space. */
  likely(most: number): LikelyTokens;
  /** Those that would end the value at hand, and what would follow. */
  ending(most: number): readonly number[];
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
    const ahead = new TextAhead(horizon);
    const guessed: Guess[] = [];
    const chances: number[] = [];
    for (let chance = 1; guessed.length < Math.min(most, MOST_GUESSES); ) {
      const guess = this.#likeliest(horizon, ahead);
      chance *= guess === undefined ? 0 : this.#rateOf(guess);
      if (guess === undefined || chance < LEAST_CHANCE) break;
      guessed.push(guess);
      chances.push(chance);
      ahead.accept(guess.token);
      for (const drafter of this.#drafters) drafter.imagine(guess.token);
    }
    for (const drafter of this.#drafters) drafter.forget();
    this.#guessed = guessed;
    return chances;
  }

  /** Whether one of the drafters knows better than a guess of this kind as a rule is. */
  knowsBetterThan(kind: GuessKind): boolean {
    return this.#drafters.some((drafter) => {
      const guess = drafter.guess();
      return guess !== undefined && this.#rateOf(guess) > this.#rates.of(kind);
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
    for (const drafter of this.#drafters) for (const token of tokens) drafter.accept(token);
  }

  /** Of those that can come. */
  #likeliest(horizon: Horizon, ahead: TextAhead): Guess | undefined {
    const known = ahead.guess();
    const end = known === undefined ? ahead.end : undefined;
    const guesses = this.#drafters
      .map((drafter) => drafter.guess(end))
      .filter((guess) => guess !== undefined);
    if (end !== undefined) guesses.push({ token: end, kind: 'end' });
    guesses.sort((a, b) => this.#rateOf(b) - this.#rateOf(a));
    const first = guesses.find(({ token }) => horizon.accept(token));
    if (known === undefined) return first;
    // How the text that comes is cut into tokens shows best where it was written before.
    if (first !== undefined) return { token: first.token, kind: known.kind };
    return horizon.accept(known.token) ? known : undefined;
  }

  #rateOf({ kind }: Guess): number {
    return this.#rates.of(kind);
  }
}

/** What a grammar says of the text that comes, looked up again where it ends or something else is guessed. */
class TextAhead {
  readonly #horizon: Horizon;
  #text: LikelyTokens | undefined;
  #ending: readonly number[] | undefined;

  constructor(horizon: Horizon) {
    this.#horizon = horizon;
  }

  guess(): Guess | undefined {
    this.#text ??= this.#horizon.likely(MOST_GUESSES);
    const { tokens, forced } = this.#text;
    const [token, next] = tokens;
    if (token === undefined) return undefined;
    return { token, kind: next === undefined ? 'edge' : forced === 0 ? 'usual' : 'forced' };
  }

  /** Where the text is not known: what would end it. */
  get end(): number | undefined {
    this.#ending ??= this.#horizon.ending(MOST_GUESSES);
    return this.#ending[0];
  }

  accept(token: number): void {
    const { tokens, forced } = this.#text ?? { tokens: [], forced: 0 };
    const ending = this.#ending;
    this.#ending = undefined;
    if (tokens[0] === token && tokens.length > 1) {
      this.#text = { tokens: tokens.slice(1), forced: Math.max(0, forced - 1) };
    } else if (ending?.[0] === token && ending.length > 1) {
      this.#text = { tokens: ending.slice(1), forced: 0 };
    } else {
      this.#text = undefined;
    }
  }
}
