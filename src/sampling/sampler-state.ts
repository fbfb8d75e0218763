// What the samplers of one answer must know of the tokens before: counts for penalties, repetitions for DRY, beginnings of
// bad words, and what mirostat has learned.

import { type Breakers, breakersOf, dryPenalties, usesDry } from './dry.ts';
import { firstMu } from './mirostat.ts';
import type { SamplingParameters } from './parameters.ts';
import type { SampleRow } from './sample-row.ts';
import { needsCounts, type SeenTokens, TokenCounts } from './token-counts.ts';

/** Whether the samplers depend on the tokens before in other ways than through the logits. */
export function needsState(parameters: SamplingParameters): boolean {
  const { badWords, mirostat } = parameters;
  return needsCounts(parameters) || usesDry(parameters) || badWords.length > 0 || mirostat !== 0;
}

type StateRow = Pick<SampleRow, 'counts' | 'dry' | 'mu' | 'forbidden'>;

export class SamplerState {
  readonly #parameters: SamplingParameters;
  readonly #promptLength: number;
  /** Undefined where nothing is counted, or only the last tokens are. */
  readonly #counts: TokenCounts | undefined;
  readonly #breakers: Breakers | undefined;
  #mu: number | undefined;

  constructor(parameters: SamplingParameters, prompt: Int32Array, answer: readonly number[]) {
    this.#parameters = parameters;
    this.#promptLength = prompt.length;
    const { repeatLastN, mirostat } = parameters;
    if (needsCounts(parameters)) {
      if (repeatLastN === undefined) this.#counts = new TokenCounts(prompt, answer);
      if (repeatLastN === -1) this.#counts = new TokenCounts([], [...prompt, ...answer]);
    }
    if (usesDry(parameters)) this.#breakers = breakersOf(parameters);
    if (mirostat !== 0) this.#mu = firstMu(parameters);
  }

  /** A token has come; `mu`: what mirostat has learned from it. */
  accept(token: number, mu: number | undefined): void {
    this.#counts?.addGenerated(token);
    if (mu !== undefined) this.#mu = mu;
  }

  /** How the token after `tokens` and then `further` is sampled. */
  row(tokens: Int32Array, further: readonly number[]): StateRow {
    const { badWords } = this.#parameters;
    const history = this.#breakers === undefined ? tokens : joined(tokens, further);
    return {
      counts: this.#countsAfter(tokens, further),
      dry: this.#breakers && dryPenalties(history, this.#parameters, this.#breakers),
      mu: this.#mu,
      forbidden: badWords.flatMap((word) => this.#lastOf(word, tokens, further)),
    };
  }

  #countsAfter(tokens: Int32Array, further: readonly number[]): SeenTokens | undefined {
    const counts = this.#counts;
    if (counts !== undefined) return further.length === 0 ? counts : counts.after(further);
    const { repeatLastN } = this.#parameters;
    if (repeatLastN === undefined || !needsCounts(this.#parameters)) return undefined;
    const own = Math.max(0, repeatLastN - further.length);
    const last = tokens.subarray(Math.max(0, tokens.length - own));
    return new TokenCounts([], [...last, ...further.slice(Math.max(0, further.length - repeatLastN))]);
  }

  /** The last token of a bad word, where the answer ends with all of it before that. */
  #lastOf(word: readonly number[], tokens: Int32Array, further: readonly number[]): readonly number[] {
    const before = word.length - 1;
    const length = tokens.length + further.length;
    if (length - before < this.#promptLength) return [];
    for (let at = 0; at < before; at++) {
      const place = length - before + at;
      const token = place < tokens.length ? tokens[place] : further[place - tokens.length];
      if (token !== word[at]) return [];
    }
    return [word[before] as number];
  }
}

function joined(tokens: Int32Array, further: readonly number[]): Int32Array {
  if (further.length === 0) return tokens;
  const all = new Int32Array(tokens.length + further.length);
  all.set(tokens);
  all.set(further, tokens.length);
  return all;
}
