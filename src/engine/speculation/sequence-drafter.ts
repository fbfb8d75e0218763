// Drafts for one sequence: the likeliest token of those that its drafters and its grammar propose, again and again.

import type { LikelyTokens } from '../../grammar/matcher.ts';
import type { DraftTokenCounts } from '../request.ts';
import type { Draft, DraftToken } from '../scheduler/draft.ts';
import type { AcceptanceRates } from './acceptance-rates.ts';
import type { Drafter, Lookahead } from './drafter.ts';

/** More are not worth looking for. */
const MAX_DRAFT_LENGTH = 31;
/** Nor those that are so unlikely. */
const MIN_PROBABILITY = 0.02;

export interface ProposedToken extends DraftToken {
  /** That this token and all before it are accepted. */
  readonly probability: number;
}

export class SequenceDrafter {
  readonly #drafters: readonly Drafter[];
  readonly #rates: AcceptanceRates;
  /** What is proposed without a model, until the sequence goes on. */
  #known: readonly ProposedToken[] | undefined;
  #accepted = 0;
  #rejected = 0;

  /** `rates`: those of the sequence. */
  constructor(drafters: readonly Drafter[], rates: AcceptanceRates) {
    this.#drafters = drafters;
    this.#rates = rates;
  }

  /** Draft tokens that were computed. */
  get counts(): DraftTokenCounts {
    return { accepted: this.#accepted, rejected: this.#rejected };
  }

  /** Up to `most` tokens. `modelTokens`: what a model drafted, if one was asked. */
  propose(
    lookahead: Lookahead,
    most: number,
    modelTokens: readonly DraftToken[] = [],
  ): readonly ProposedToken[] {
    if (modelTokens.length > 0) return this.#propose(lookahead, most, modelTokens);
    this.#known ??= this.#propose(lookahead, most, []);
    return this.#known;
  }

  #propose(lookahead: Lookahead, most: number, modelTokens: readonly DraftToken[]): ProposedToken[] {
    const grammar = new GrammarText(lookahead);
    const proposed: ProposedToken[] = [];
    let probability = 1;
    let ofModel = modelTokens;
    while (proposed.length < Math.min(most, MAX_DRAFT_LENGTH)) {
      const next = this.#likeliest(lookahead, grammar, ofModel[proposed.length]);
      if (next === undefined) break;
      probability *= this.#rates.of(next);
      if (probability < MIN_PROBABILITY) break;
      // After another token the model's say nothing.
      if (next.token !== ofModel[proposed.length]?.token) ofModel = [];
      const { token, source, matchLength } = next;
      proposed.push({ token, source, matchLength, probability });
      grammar.accept(token);
      for (const drafter of this.#drafters) drafter.extend(token);
    }
    for (const drafter of this.#drafters) drafter.rollBack();
    return proposed;
  }

  /**
   * The sequence goes on with these tokens, at least one. Where no draft token was computed, the first one that was
   * proposed still shows what it would have been worth.
   */
  commit({ tokens, proposed }: Draft, sampled: readonly number[]): void {
    this.#known = undefined;
    let accepted = 0;
    for (const each of proposed.slice(0, Math.max(1, tokens.length))) {
      // What would have followed the last token is not known.
      if (accepted === sampled.length) break;
      const isAccepted = each.token === sampled[accepted];
      this.#rates.observe(each, isAccepted);
      if (accepted === 0 && isOfModel(each)) this.#rates.observe({ ...each, matchLength: 0 }, isAccepted);
      if (!isAccepted) break;
      accepted += 1;
    }
    accepted = Math.min(accepted, tokens.length);
    this.#accepted += accepted;
    this.#rejected += tokens.length - accepted;
    for (const drafter of this.#drafters) for (const token of sampled) drafter.accept(token);
  }

  /** Of those that can come. */
  #likeliest(
    lookahead: Lookahead,
    grammar: GrammarText,
    ofModel: DraftToken | undefined,
  ): DraftToken | undefined {
    const known = grammar.propose();
    const end = known === undefined ? grammar.end : undefined;
    const candidates: DraftToken[] = [];
    for (const drafter of this.#drafters) {
      const candidate = drafter.propose(end);
      if (candidate !== undefined) candidates.push(candidate);
    }
    if (ofModel !== undefined) candidates.push(ofModel);
    if (end !== undefined) candidates.push({ token: end, source: 'grammar-end', matchLength: 0 });
    candidates.sort((a, b) => this.#rates.of(b) - this.#rates.of(a));
    const first = candidates.find(({ token }) => lookahead.accept(token));
    if (known === undefined) return first;
    // How the text that comes is cut into tokens shows best where it was written before.
    if (first !== undefined) return { ...known, token: first.token };
    return lookahead.accept(known.token) ? known : undefined;
  }
}

function isOfModel({ source }: DraftToken): boolean {
  return source === 'draft-model' || source === 'mtp-head';
}

/** What a grammar says of the text that comes, looked up again where it ends or something else is proposed. */
class GrammarText {
  readonly #lookahead: Lookahead;
  #text: LikelyTokens | undefined;
  #ending: readonly number[] | undefined;

  constructor(lookahead: Lookahead) {
    this.#lookahead = lookahead;
  }

  propose(): DraftToken | undefined {
    this.#text ??= this.#lookahead.likely(MAX_DRAFT_LENGTH);
    const { tokens, forced } = this.#text;
    const [token, next] = tokens;
    if (token === undefined) return undefined;
    const source = next === undefined ? 'grammar-edge' : forced === 0 ? 'grammar-space' : 'grammar';
    return { token, source, matchLength: 0 };
  }

  /** Where the text is not known: what would end it. */
  get end(): number | undefined {
    this.#ending ??= this.#lookahead.ending(MAX_DRAFT_LENGTH);
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
