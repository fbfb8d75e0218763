// The tokens a draw may still pick, most likely first (ties: lower id first), and what thins them out. Weights
// are whole numbers whose sums are exact, so native code may add them up in any order and look only at the few
// candidates it needs, and still agree bit for bit.

import { naturalLogarithm, roundToWhole, scaleLogit, unitBitsFor, weightOf } from './exponential.ts';

export interface Candidate {
  readonly token: number;
  readonly logit: number;
  /** log2 of the probability, relative to the most likely token of the row. */
  readonly scaled: number;
  /** The probability but for a common factor: above 0. */
  readonly weight: number;
}

export interface Candidates {
  readonly list: readonly Candidate[];
  /** Sum of the weights. */
  readonly total: number;
}

/** A smaller share than this of the first weight excludes nothing. */
const LEAST_SHARE = 2 ** -64;

/** All tokens that weigh anything. */
export function weighCandidates(logits: Float32Array, highest: number, temperature: number): Candidates {
  const unitBits = unitBitsFor(logits.length);
  const list: Candidate[] = [];
  for (const [token, logit] of logits.entries()) {
    const scaled = scaleLogit(logit, highest, temperature);
    const weight = weightOf(scaled, unitBits);
    if (weight > 0) list.push({ token, logit, scaled, weight });
  }
  return withTotal(list.sort(byLogit));
}

/** Exactly k stay: a tie at the edge goes to the lower ids, so that k bounds the work. */
export function keepTopK(candidates: Candidates, topK: number): Candidates {
  return topK === 0 ? candidates : withTotal(candidates.list.slice(0, topK));
}

/**
 * Locally typical sampling (Meister et al., 2022): keeps the tokens whose surprise is nearest to the entropy.
 * Surprise minus entropy is mean(scaled) - scaled, so neither needs a logarithm.
 */
export function keepTypical({ list, total }: Candidates, share: number): Candidates {
  if (share === 1) return { list, total };
  const moment = list.reduce((sum, { weight, scaled }) => sum + roundToWhole(weight * scaled), 0);
  const mean = Math.fround(moment / total);
  const deviation = ({ scaled }: Candidate) => Math.abs(Math.fround(scaled - mean));
  const typicalFirst = list.toSorted((a, b) => deviation(a) - deviation(b));
  return withTotal(typicalFirst.slice(0, countForMass(typicalFirst, share * total)).sort(byLogit));
}

/** The fewest most likely that hold the share. */
export function keepTopP({ list, total }: Candidates, share: number): Candidates {
  return share === 1 ? { list, total } : withTotal(list.slice(0, countForMass(list, share * total)));
}

/** Those with at least this share of the first one's probability. */
export function keepMinP({ list, total }: Candidates, share: number): Candidates {
  if (share === 0) return { list, total };
  const first = (list[0] as Candidate).scaled;
  const width = naturalLogarithm(1 / Math.max(share, LEAST_SHARE)) * Math.LOG2E;
  const least = Math.fround(first - width);
  return withTotal(list.filter(({ scaled }) => scaled >= least));
}

/** Inverts the distribution function: `uniform` points at one unit of the total, whose owner is drawn. */
export function drawToken({ list, total }: Candidates, uniform: number): number {
  const place = Math.min(Math.floor(uniform * total) + 1, total);
  return (list[countForMass(list, place) - 1] as Candidate).token;
}

function byLogit(a: Candidate, b: Candidate): number {
  return b.logit - a.logit || a.token - b.token;
}

/** How many of the first have the mass, which is at most that of all. */
function countForMass(list: readonly Candidate[], mass: number): number {
  let sum = 0;
  const last = list.findIndex(({ weight }) => {
    sum += weight;
    return sum >= mass;
  });
  return last + 1;
}

function withTotal(list: readonly Candidate[]): Candidates {
  return { list, total: list.reduce((sum, { weight }) => sum + weight, 0) };
}
