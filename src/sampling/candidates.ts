// The tokens that may still be sampled, most likely first (ties: lower id first), and the filters over them. Weights
// are integers whose sums are exact, so native code may add them in any order and still agree bit for bit. A GPU
// returns only the first candidates and the total weight; a filter that needs more returns `undefined`.

import { naturalLogarithm, roundToWhole, scaleLogit, unitBitsFor, weightOf } from './exponential.ts';
import type { SamplingParameters } from './parameters.ts';

export interface TokenLogit {
  readonly token: number;
  readonly logit: number;
}

export interface Candidate extends TokenLogit {
  /** log2 of the probability, relative to the most likely token of the row. */
  readonly scaled: number;
  /** The probability up to a common factor. */
  readonly weight: number;
}

export interface Candidates {
  /** All candidates, or the first of them; at least one. */
  readonly list: readonly Candidate[];
  /** The sum of the weights of all candidates. */
  readonly total: number;
  /** Whether the list has all candidates that weigh anything. */
  readonly whole: boolean;
}

/** Smaller values of min-p exclude nothing. */
const LEAST_SHARE = 2 ** -64;

interface Weighing {
  readonly highest: number;
  readonly temperature: number;
  readonly vocabSize: number;
}

export function weigh(tokens: readonly TokenLogit[], weighing: Weighing): Candidate[] {
  const unitBits = unitBitsFor(weighing.vocabSize);
  const list: Candidate[] = [];
  for (const { token, logit } of tokens) {
    const scaled = scaleLogit(logit, weighing.highest, weighing.temperature);
    const weight = weightOf(scaled, unitBits);
    if (weight > 0) list.push({ token, logit, scaled, weight });
  }
  return list;
}

export function weighCandidates(logits: Float32Array, highest: number, temperature: number): Candidates {
  const tokens = Array.from(logits, (logit, token) => ({ token, logit }));
  return withTotal(weigh(tokens, { highest, temperature, vocabSize: logits.length }).sort(byLogit));
}

export function thinOut(candidates: Candidates, parameters: SamplingParameters): Candidates | undefined {
  const likely = keepTopK(candidates, parameters.topK);
  const typical = likely && keepTypical(likely, parameters.typicalP);
  const held = typical && keepTopP(typical, parameters.topP);
  return held && keepMinP(held, parameters.minP);
}

/** Keeps exactly k: a tie at the edge goes to the lower ids. */
export function keepTopK(candidates: Candidates, topK: number): Candidates | undefined {
  if (topK === 0) return candidates;
  if (topK <= candidates.list.length) return withTotal(candidates.list.slice(0, topK));
  return candidates.whole ? candidates : undefined;
}

/**
 * Locally typical sampling (Meister et al., 2022): keeps the tokens whose surprise is nearest to the entropy.
 * Surprise minus entropy is mean(scaled) - scaled, so neither needs a logarithm.
 */
export function keepTypical(candidates: Candidates, share: number, minKeep = 0): Candidates | undefined {
  if (share === 1) return candidates;
  if (!candidates.whole) return undefined;
  const { list, total } = candidates;
  const mean = Math.fround(momentOf(list) / total);
  const deviation = ({ scaled }: Candidate) => Math.abs(Math.fround(scaled - mean));
  const typicalFirst = list.toSorted((a, b) => deviation(a) - deviation(b));
  const count = Math.max(countForMass(typicalFirst, share * total) ?? 0, minKeep);
  return withTotal(typicalFirst.slice(0, count).sort(byLogit));
}

export function keepTopP(candidates: Candidates, share: number, minKeep = 0): Candidates | undefined {
  if (share === 1) return candidates;
  const { list, total } = candidates;
  const count = countForMass(list, share * total);
  return count === undefined ? undefined : keepFirst(candidates, Math.max(count, minKeep));
}

export function keepMinP(candidates: Candidates, share: number, minKeep = 0): Candidates | undefined {
  if (share === 0) return candidates;
  const { list, whole } = candidates;
  const first = (list[0] as Candidate).scaled;
  const width = naturalLogarithm(1 / Math.max(share, LEAST_SHARE)) * Math.LOG2E;
  const least = Math.fround(first - width);
  const kept = list.filter(({ scaled }) => scaled >= least).length;
  return kept < list.length || whole ? keepFirst(candidates, Math.max(kept, minKeep)) : undefined;
}

/** Keeps the first, or all where they are fewer. */
export function keepFirst({ list, whole }: Candidates, count: number): Candidates | undefined {
  return count <= list.length || whole ? withTotal(list.slice(0, count)) : undefined;
}

/** Inverts the distribution function: `uniform` points at one unit of the total, whose owner is sampled. */
export function sampleCandidate({ list, total }: Candidates, uniform: number): Candidate | undefined {
  const place = Math.min(Math.floor(uniform * total) + 1, total);
  const count = countForMass(list, place);
  return count === undefined ? undefined : list[count - 1];
}

export function byLogit(a: Candidate, b: Candidate): number {
  return b.logit - a.logit || a.token - b.token;
}

/** How many leading candidates reach the mass; undefined where the known ones do not. */
function countForMass(list: readonly Candidate[], mass: number): number | undefined {
  let sum = 0;
  const last = list.findIndex(({ weight }) => {
    sum += weight;
    return sum >= mass;
  });
  return last === -1 ? undefined : last + 1;
}

export function withTotal(list: readonly Candidate[]): Candidates {
  return { list, total: sumOf(list), whole: true };
}

export function sumOf(list: readonly Candidate[]): number {
  return list.reduce((sum, { weight }) => sum + weight, 0);
}

/** The sum of weight x scaled, each rounded. */
export function momentOf(list: readonly Candidate[]): number {
  return list.reduce((sum, { weight, scaled }) => sum + roundToWhole(weight * scaled), 0);
}
