// How often draft tokens are right, by kind: first as known from elsewhere, then as seen in this engine, then as seen in the
// very sequence. What was long ago counts less.

import { type DraftKind, draftKinds } from './drafter.ts';

/** Before anything was seen. */
const FIRST: Readonly<Record<DraftKind, number>> = {
  after1: 0.2,
  after2: 0.35,
  after3: 0.5,
  after4: 0.65,
  after8: 0.85,
  ngram1: 0.2,
  ngram2: 0.4,
  ngram4: 0.6,
  expected: 0.9,
  again: 0.5,
  forced: 0.95,
  usual: 0.7,
  edge: 0.4,
  word1: 0.4,
  word2: 0.6,
  word3: 0.8,
  'word-end': 0.6,
  end: 0.2,
  model: 0.6,
};
/** What was seen before weighs so much after one more draft token. */
const MEMORY = { engine: 0.998, sequence: 0.9 } as const;
/** What is known from outside counts like so many draft tokens. */
const PRIOR_WEIGHT = { engine: 20, sequence: 3 } as const;

const numbers = Object.fromEntries(draftKinds.map((kind, at) => [kind, at])) as Record<DraftKind, number>;

export class AcceptanceRates {
  readonly #outer: AcceptanceRates | undefined;
  readonly #right = new Float64Array(draftKinds.length);
  readonly #seen = new Float64Array(draftKinds.length);

  /** Of a sequence within an engine, or, without `outer`, of the engine. */
  constructor(outer?: AcceptanceRates) {
    this.#outer = outer;
  }

  /** The probability that a draft token of the kind is right, where the one before it was. */
  of(kind: DraftKind): number {
    const at = numbers[kind];
    const weight = PRIOR_WEIGHT[this.#level];
    const prior = this.#outer?.of(kind) ?? FIRST[kind];
    return ((this.#right[at] as number) + weight * prior) / ((this.#seen[at] as number) + weight);
  }

  /** So many draft tokens in a row were right; and the next one was not, where there was one. */
  learn(kind: DraftKind, right: number, failed: boolean): void {
    const at = numbers[kind];
    const tries = right + Number(failed);
    const memory = MEMORY[this.#level] ** tries;
    this.#right[at] = memory * (this.#right[at] as number) + right;
    this.#seen[at] = memory * (this.#seen[at] as number) + tries;
    this.#outer?.learn(kind, right, failed);
  }

  get #level(): 'engine' | 'sequence' {
    return this.#outer === undefined ? 'engine' : 'sequence';
  }
}
