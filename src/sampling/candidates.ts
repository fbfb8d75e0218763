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
  /** The probability up to a common factor; above 0. */
  readonly weight: number;
}

export interface Candidates {
  /** All candidates, or the first of them; at least one. */
  readonly list: readonly Candidate[];
  /** The sum of the weights of all candidates. */
  readonly total: number;
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
function keepTopK(candidates: Candidates, topK: number): Candidates | undefined {
  if (topK === 0) return candidates;
  if (topK <= candidates.list.length) return withTotal(candidates.list.slice(0, topK));
  return isWhole(candidates) ? candidates : undefined;
}

/**
 * Locally typical sampling (Meister et al., 2022): keeps the tokens whose surprise is nearest to the entropy.
 * Surprise minus entropy is mean(scaled) - scaled, so neither needs a logarithm.
 */
function keepTypical(candidates: Candidates, share: number): Candidates | undefined {
  if (share === 1) return candidates;
  if (!isWhole(candidates)) return undefined;
  const { list, total } = candidates;
  const moment = list.reduce((sum, { weight, scaled }) => sum + roundToWhole(weight * scaled), 0);
  const mean = Math.fround(moment / total);
  const deviation = ({ scaled }: Candidate) => Math.abs(Math.fround(scaled - mean));
  const typicalFirst = list.toSorted((a, b) => deviation(a) - deviation(b));
  return withTotal(typicalFirst.slice(0, countForMass(typicalFirst, share * total)).sort(byLogit));
}

function keepTopP({ list, total }: Candidates, share: number): Candidates | undefined {
  if (share === 1) return { list, total };
  const count = countForMass(list, share * total);
  return count === undefined ? undefined : withTotal(list.slice(0, count));
}

function keepMinP(candidates: Candidates, share: number): Candidates | undefined {
  if (share === 0) return candidates;
  const { list } = candidates;
  const first = (list[0] as Candidate).scaled;
  const width = naturalLogarithm(1 / Math.max(share, LEAST_SHARE)) * Math.LOG2E;
  const least = Math.fround(first - width);
  const kept = list.filter(({ scaled }) => scaled >= least);
  return kept.length < list.length || isWhole(candidates) ? withTotal(kept) : undefined;
}

/** Inverts the distribution function: `uniform` points at one unit of the total, whose owner is sampled. */
export function sampleToken({ list, total }: Candidates, uniform: number): number | undefined {
  const place = Math.min(Math.floor(uniform * total) + 1, total);
  const count = countForMass(list, place);
  return count === undefined ? undefined : (list[count - 1] as Candidate).token;
}

function byLogit(a: Candidate, b: Candidate): number {
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

/** Whether the list has all candidates: every one has a weight above 0. */
function isWhole({ list, total }: Candidates): boolean {
  return sumOf(list) === total;
}

function withTotal(list: readonly Candidate[]): Candidates {
  return { list, total: sumOf(list) };
}

function sumOf(list: readonly Candidate[]): number {
  return list.reduce((sum, { weight }) => sum + weight, 0);
}
