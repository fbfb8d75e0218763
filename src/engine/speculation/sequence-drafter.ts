// Draft tokens for one sequence, and how far they can be trusted.

import type { LikelyTokens } from '../../grammar/matcher.ts';
import { AcceptanceRates } from './acceptance-rates.ts';
import type { Drafter, DraftToken } from './drafter.ts';

/** What may be drafted: where the answer goes on, by its grammar and its ends. */
export interface DraftConstraint {
  /** False where the token cannot come, or where nothing would follow it. */
  accept(token: number): boolean;
  /** Tokens that come next, as far as there is but one text beside white space. */
  likely(most: number): LikelyTokens;
  /** Those that would end the value at hand, and what would follow. */
  ending(most: number): readonly number[];
}

/** More are not worth looking for. */
const MAX_DRAFT_LENGTH = 31;
/** Nor those that are so unlikely. */
const MIN_PROBABILITY = 0.02;

export class SequenceDrafter {
  /** Draft tokens that were computed. */
  accepted = 0;
  rejected = 0;
  readonly #drafters: readonly Drafter[];
  readonly #rates: AcceptanceRates;
  #proposed: readonly DraftToken[] = [];
  #taken = 0;

  constructor(drafters: readonly Drafter[], engineRates: AcceptanceRates) {
    this.#drafters = drafters;
    this.#rates = new AcceptanceRates(engineRates);
  }

  /** Looks for up to `most` draft tokens; gives the probability of each that it and all before it are right. */
  look(constraint: DraftConstraint, most: number): number[] {
    this.#taken = 0;
    const ahead = new TextAhead(constraint);
    const proposed: DraftToken[] = [];
    const probabilities: number[] = [];
    for (let probability = 1; proposed.length < Math.min(most, MAX_DRAFT_LENGTH); ) {
      const next = this.#likeliest(constraint, ahead);
      probability *= next === undefined ? 0 : this.#rates.of(next);
      if (next === undefined || probability < MIN_PROBABILITY) break;
      proposed.push(next);
      probabilities.push(probability);
      ahead.accept(next.token);
      for (const drafter of this.#drafters) drafter.extend(next.token);
    }
    for (const drafter of this.#drafters) drafter.rollBack();
    this.#proposed = proposed;
    return probabilities;
  }

  /** Whether one of the drafters knows better than a draft model does as a rule. */
  knowsBetterThanModel(): boolean {
    const rate = this.#rates.of({ source: 'draft-model', matchLength: 0 });
    return this.#drafters.some((drafter) => {
      const proposed = drafter.propose();
      return proposed !== undefined && this.#rates.of(proposed) > rate;
    });
  }

  /** The first of those draft tokens: they are computed. */
  take(count: number): number[] {
    this.#taken = count;
    return this.#proposed.slice(0, count).map(({ token }) => token);
  }

  /** Fewer of them than were taken are computed. */
  limit(count: number): void {
    this.#taken = Math.min(this.#taken, count);
  }

  /** What came: one token at least. Where nothing was computed, the first draft token still shows what it would have been worth. */
  learn(tokens: readonly number[]): void {
    const looked = this.#proposed.slice(0, Math.max(1, this.#taken));
    let right = 0;
    for (const each of looked) {
      // Behind the last token that came nothing is known.
      if (right >= tokens.length) break;
      const isRight = each.token === tokens[right];
      this.#rates.observe(each, isRight);
      if (!isRight) break;
      right += 1;
    }
    const accepted = Math.min(right, this.#taken);
    this.accepted += accepted;
    this.rejected += this.#taken - accepted;
    this.#proposed = [];
    this.#taken = 0;
    for (const drafter of this.#drafters) for (const token of tokens) drafter.accept(token);
  }

  /** Of those that can come. */
  #likeliest(constraint: DraftConstraint, ahead: TextAhead): DraftToken | undefined {
    const known = ahead.propose();
    const end = known === undefined ? ahead.end : undefined;
    const draftTokens = this.#drafters
      .map((drafter) => drafter.propose(end))
      .filter((proposed) => proposed !== undefined);
    if (end !== undefined) draftTokens.push({ token: end, source: 'grammar-end', matchLength: 0 });
    draftTokens.sort((a, b) => this.#rates.of(b) - this.#rates.of(a));
    const first = draftTokens.find(({ token }) => constraint.accept(token));
    if (known === undefined) return first;
    // How the text that comes is cut into tokens shows best where it was written before.
    if (first !== undefined) return { ...known, token: first.token };
    return constraint.accept(known.token) ? known : undefined;
  }
}

/** What a grammar says of the text that comes, looked up again where it ends or something else is drafted. */
class TextAhead {
  readonly #constraint: DraftConstraint;
  #text: LikelyTokens | undefined;
  #ending: readonly number[] | undefined;

  constructor(constraint: DraftConstraint) {
    this.#constraint = constraint;
  }

  propose(): DraftToken | undefined {
    this.#text ??= this.#constraint.likely(MAX_DRAFT_LENGTH);
    const { tokens, forced } = this.#text;
    const [token, next] = tokens;
    if (token === undefined) return undefined;
    const source = next === undefined ? 'grammar-edge' : forced === 0 ? 'grammar-space' : 'grammar';
    return { token, source, matchLength: 0 };
  }

  /** Where the text is not known: what would end it. */
  get end(): number | undefined {
    this.#ending ??= this.#constraint.ending(MAX_DRAFT_LENGTH);
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
