// The tokens a draw may still pick, most likely first (ties: lower id first), and what thins them out.
// A sum over the whole vocabulary is a LaneSum by id; once anything is dropped, sums run over the survivors
// in their order. This is what lets native code sort only the few it needs and still agree bit for bit.

import { exponential, LaneSum } from './exponential.ts';

export interface Candidate {
  readonly token: number;
  readonly logit: number;
  /** (logit - highest logit) / temperature. */
  readonly scaled: number;
  /** e^scaled: the probability but for a common factor. */
  readonly weight: number;
}

export interface Candidates {
  readonly list: readonly Candidate[];
  /** Sum of the weights. */
  readonly total: number;
  /** Sum of weight x scaled. */
  readonly moment: number;
}

/** All tokens that are not excluded. */
export function weighCandidates(logits: Float32Array, highest: number, temperature: number): Candidates {
  const inverse = 1 / temperature;
  const list: Candidate[] = [];
  const total = new LaneSum();
  const moment = new LaneSum();
  for (const [token, logit] of logits.entries()) {
    if (logit === -Infinity) continue;
    const scaled = (logit - highest) * inverse;
    const weight = exponential(scaled);
    list.push({ token, logit, scaled, weight });
    total.add(token, weight);
    moment.add(token, weight * scaled);
  }
  return { list: list.sort(byLogit), total: total.total(), moment: moment.total() };
}

/** Exactly k stay: a tie at the edge goes to the lower ids, so that k bounds the work. */
export function keepTopK(candidates: Candidates, topK: number): Candidates {
  return topK === 0 ? candidates : keepFirst(candidates, topK);
}

/**
 * Locally typical sampling (Meister et al., 2022): keeps the tokens whose surprise is nearest to the entropy.
 * Surprise minus entropy is mean(scaled) - scaled, so neither needs a logarithm.
 */
export function keepTypical(candidates: Candidates, share: number): Candidates {
  if (share === 1) return candidates;
  const mean = candidates.moment / candidates.total;
  const deviation = ({ scaled }: Candidate) => Math.abs(scaled - mean);
  const typicalFirst = candidates.list.toSorted((a, b) => deviation(a) - deviation(b));
  const count = countForMass(typicalFirst, share * candidates.total);
  if (count === typicalFirst.length) return candidates;
  return weighSurvivors(typicalFirst.slice(0, count).sort(byLogit));
}

/** The fewest most likely that hold the share. */
export function keepTopP(candidates: Candidates, share: number): Candidates {
  if (share === 1) return candidates;
  return keepFirst(candidates, countForMass(candidates.list, share * candidates.total));
}

export function keepMinP(candidates: Candidates, share: number): Candidates {
  const least = share * (candidates.list[0] as Candidate).weight;
  const count = candidates.list.findIndex(({ weight }) => weight < least);
  return count === -1 ? candidates : keepFirst(candidates, count);
}

/** Inverts the distribution function: the first candidate at which the running sum passes uniform x total. */
export function drawToken({ list, total }: Candidates, uniform: number): number {
  const target = uniform * total;
  let sum = 0;
  for (const { token, weight } of list) {
    sum += weight;
    if (sum > target) return token;
  }
  // Rounding left the running sum a hair below the total.
  return (list.findLast(({ weight }) => weight > 0) ?? (list[0] as Candidate)).token;
}

function byLogit(a: Candidate, b: Candidate): number {
  return b.logit - a.logit || a.token - b.token;
}

function countForMass(list: readonly Candidate[], mass: number): number {
  let sum = 0;
  const last = list.findIndex(({ weight }) => {
    sum += weight;
    return sum >= mass;
  });
  return last === -1 ? list.length : last + 1;
}

function keepFirst(candidates: Candidates, count: number): Candidates {
  if (count >= candidates.list.length) return candidates;
  return weighSurvivors(candidates.list.slice(0, count));
}

function weighSurvivors(list: readonly Candidate[]): Candidates {
  let total = 0;
  let moment = 0;
  for (const { weight, scaled } of list) {
    total += weight;
    moment += weight * scaled;
  }
  return { list, total, moment };
}
