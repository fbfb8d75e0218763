// Mirostat (Basu et al., 2021): keeps as many of the likeliest tokens as hold the surprise of an answer near a target, in
// place of the other filters. What it allows, `mu`, is learned from token to token. The two versions are llama.cpp's.

import { type Candidate, type Candidates, keepFirst } from './candidates.ts';
import { binaryLogarithm, naturalLogarithm, powerOfTwo } from './exponential.ts';
import type { SamplingParameters } from './parameters.ts';

/** Candidates from which version 1 estimates Zipf's exponent. */
const ZIPF_CANDIDATES = 100;

/** What the first token of an answer is allowed. */
export function firstMu({ mirostatTau }: SamplingParameters): number {
  return 2 * mirostatTau;
}

export function keepUnsurprising(
  candidates: Candidates,
  { mirostat }: SamplingParameters,
  mu: number,
  vocabSize: number,
): Candidates | undefined {
  if (mirostat === 2) return keepBelow(candidates, mu);
  const exponent = zipfExponent(candidates);
  if (exponent === undefined) return undefined;
  return keepFirst(candidates, countFor(exponent, mu, vocabSize));
}

/** What the next token is allowed once `sampled` has come of those that were kept. */
export function nextMu(
  { mirostatTau, mirostatEta }: SamplingParameters,
  mu: number,
  kept: Candidates,
  sampled: Candidate,
): number {
  return mu - mirostatEta * (surpriseOf(sampled, kept) - mirostatTau);
}

function surpriseOf({ weight }: Candidate, { total }: Candidates): number {
  return binaryLogarithm(total / weight);
}

function keepBelow(candidates: Candidates, mu: number): Candidates | undefined {
  const { list, whole } = candidates;
  const end = list.findIndex((candidate) => candidate.weight === 0 || surpriseOf(candidate, candidates) > mu);
  if (end === -1) return whole ? candidates : undefined;
  return keepFirst(candidates, Math.max(1, end));
}

/** The slope of probabilities over ranks, both as logarithms, by least squares; undefined where too few are known. */
function zipfExponent({ list, whole }: Candidates): number | undefined {
  if (list.length < ZIPF_CANDIDATES && !whole) return undefined;
  let products = 0;
  let squares = 0;
  for (let rank = 1; rank < Math.min(ZIPF_CANDIDATES, list.length); rank++) {
    const step = naturalLogarithm((rank + 1) / rank);
    const fall = ((list[rank - 1] as Candidate).scaled - (list[rank] as Candidate).scaled) * Math.LN2;
    products += step * fall;
    squares += step * step;
  }
  return squares === 0 ? 0 : products / squares;
}

/** How many candidates of a Zipf distribution have the allowed surprise; at least one. */
function countFor(exponent: number, mu: number, vocabSize: number): number {
  if (exponent === 0) return vocabSize;
  const excess = exponent - 1;
  const tail = 1 - powerOfTwo(-excess * binaryLogarithm(vocabSize));
  // Both vanish together where the exponent is 1.
  const ratio = tail === 0 ? 1 / naturalLogarithm(vocabSize) : excess / tail;
  const count = powerOfTwo((binaryLogarithm(ratio) + mu) / exponent);
  return Math.min(Math.max(1, Math.floor(count)), vocabSize);
}
