// How often draft tokens are accepted, by source and match length: first as known from elsewhere, then as seen in this engine,
// then as seen in the very sequence. What was long ago counts less.

import type { DraftSource, DraftToken } from '../scheduler/draft.ts';

/** Of models, by how likely they took the token for: a little less, since they are not the model. */
const likely = { 1: 0.15, 2: 0.35, 3: 0.5, 4: 0.65, 5: 0.8, 6: 0.88, 7: 0.93, 8: 0.96 } as const;

/** Before anything was seen: by match length, each from that one up to the next. */
const PRIORS: Readonly<Record<DraftSource, Readonly<Record<number, number>>>> = {
  'prompt-lookup': { 0: 0.2, 2: 0.35, 3: 0.5, 4: 0.65, 8: 0.85 },
  'n-gram-cache': { 0: 0.2, 2: 0.4, 4: 0.6 },
  prediction: { 0: 0.5, 1: 0.9 },
  grammar: { 0: 0.95 },
  'grammar-space': { 0: 0.7 },
  'grammar-edge': { 0: 0.4 },
  'grammar-end': { 0: 0.2 },
  'word-completion': { 0: 0.4, 2: 0.6, 3: 0.8 },
  'word-end': { 0: 0.6 },
  'draft-model': { 0: 0.6, ...likely },
  'mtp-head': { 0: 0.7, ...likely },
};
const LONGEST_MATCH = 8;
/** Weight of what was seen before, after one more token. */
const MEMORY = { engine: 0.998, sequence: 0.9 } as const;
/** Tokens that the prior counts for. */
const PRIOR_WEIGHT = { engine: 20, sequence: 3 } as const;

interface Rate {
  readonly prior: number;
  accepted: number;
  seen: number;
}

type Origin = Pick<DraftToken, 'source' | 'matchLength'>;

export class AcceptanceRates {
  readonly #outer: AcceptanceRates | undefined;
  readonly #level: 'engine' | 'sequence';
  readonly #rates = new Map<DraftSource, readonly Rate[]>();

  /** Of a sequence within an engine, or, without `outer`, of the engine. */
  constructor(outer?: AcceptanceRates) {
    this.#outer = outer;
    this.#level = outer === undefined ? 'engine' : 'sequence';
  }

  /** The probability that such a token is accepted, where the one before it was. */
  of(origin: Origin): number {
    const weight = PRIOR_WEIGHT[this.#level];
    const { prior, accepted, seen } = this.#rate(origin);
    return (accepted + weight * (this.#outer?.of(origin) ?? prior)) / (seen + weight);
  }

  observe(origin: Origin, isAccepted: boolean): void {
    const rate = this.#rate(origin);
    const memory = MEMORY[this.#level];
    rate.accepted = memory * rate.accepted + Number(isAccepted);
    rate.seen = memory * rate.seen + 1;
    this.#outer?.observe(origin, isAccepted);
  }

  #rate({ source, matchLength }: Origin): Rate {
    let rates = this.#rates.get(source);
    if (rates === undefined) {
      rates = newRates(source);
      this.#rates.set(source, rates);
    }
    return rates[Math.min(matchLength, LONGEST_MATCH)] as Rate;
  }
}

/** By match length; those between which the table makes no difference share one. */
function newRates(source: DraftSource): Rate[] {
  let rate: Rate;
  return Array.from({ length: LONGEST_MATCH + 1 }, (_, matchLength) => {
    const prior = PRIORS[source][matchLength];
    if (prior !== undefined) rate = { prior, accepted: 0, seen: 0 };
    return rate;
  });
}
