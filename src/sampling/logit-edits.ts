// What works on the logits of single tokens: bias, penalties, exclusions. All in float32, each operation rounded, without
// divisions: a GPU gets the same bits.

import type { SamplingParameters } from './parameters.ts';
import type { SampleRow, TokenPenalties } from './sample-row.ts';
import { needsCounts } from './token-counts.ts';

interface PenaltyFactors {
  /** For logits below 0, and for the others. */
  readonly repetition: number;
  readonly inverseRepetition: number;
  readonly presence: number;
  readonly frequency: number;
}

export function penaltyFactors(parameters: SamplingParameters): PenaltyFactors {
  return {
    repetition: Math.fround(parameters.repetitionPenalty),
    inverseRepetition: Math.fround(1 / parameters.repetitionPenalty),
    presence: Math.fround(parameters.presencePenalty),
    frequency: Math.fround(parameters.frequencyPenalty),
  };
}

/** The row's own order: bias, then penalties (a bias counts as the model's own opinion, as in vLLM), then exclusions. */
export function adjustedLogits(logits: Float32Array, row: SampleRow): Float32Array {
  const adjusted = logits.slice();
  addBias(adjusted, row);
  tokenPenalties(adjusted, row);
  takeDry(adjusted, row.dry);
  exclude(adjusted, row);
  return adjusted;
}

/** The same without penalties, which have a place among the samplers. */
export function biasedLogits(logits: Float32Array, row: SampleRow): Float32Array {
  const biased = logits.slice();
  addBias(biased, row);
  exclude(biased, row);
  return biased;
}

function addBias(logits: Float32Array, { parameters }: SampleRow): void {
  for (const { token, bias } of parameters.logitBias) {
    logits[token] = (logits[token] as number) + Math.fround(bias);
  }
}

/** Exclusions leave -Infinity. */
function exclude(logits: Float32Array, { forbidden, mask }: SampleRow): void {
  for (const token of forbidden) logits[token] = -Infinity;
  if (mask === undefined) return;
  for (let token = 0; token < logits.length; token++) {
    const allowed = ((mask[token >>> 5] as number) >>> (token & 31)) & 1;
    if (allowed === 0) logits[token] = -Infinity;
  }
}

export function tokenPenalties(logits: Float32Array, { parameters, counts }: SampleRow): void {
  if (!needsCounts(parameters)) return;
  if (counts === undefined) throw new Error('sampling: penalties need the counts of tokens seen');
  const factors = penaltyFactors(parameters);
  for (const [place, token] of counts.ids.entries()) {
    logits[token] = penalize(logits[token] as number, counts.generated[place] as number, factors);
  }
}

export type LogitEdit = (token: number, logit: number) => number;

/** The same for single tokens, whatever their logits have become. */
export function penaltyEdit({ parameters, counts }: SampleRow): LogitEdit {
  if (counts === undefined || !needsCounts(parameters)) return (_, logit) => logit;
  const factors = penaltyFactors(parameters);
  const generated = valuesByToken(counts.ids, counts.generated);
  return (token, logit) => {
    const count = generated.get(token);
    return count === undefined ? logit : penalize(logit, count, factors);
  };
}

export function dryEdit({ dry = { tokens: [], penalties: [] } }: SampleRow): LogitEdit {
  const penalties = valuesByToken(dry.tokens, dry.penalties);
  return (token, logit) => logit - (penalties.get(token) ?? 0);
}

function valuesByToken(tokens: ArrayLike<number>, values: ArrayLike<number>): Map<number, number> {
  const byToken = new Map<number, number>();
  for (let at = 0; at < tokens.length; at++) byToken.set(tokens[at] as number, values[at] as number);
  return byToken;
}

function penalize(own: number, generated: number, factors: PenaltyFactors): number {
  const { repetition, inverseRepetition, presence, frequency } = factors;
  const logit = Math.fround(own * (own < 0 ? repetition : inverseRepetition));
  const taken = generated > 0 ? Math.fround(Math.fround(generated * frequency) + presence) : 0;
  return Math.fround(logit - taken);
}

export function takeDry(logits: Float32Array, dry: TokenPenalties | undefined): void {
  if (dry === undefined) return;
  for (const [place, token] of dry.tokens.entries()) {
    logits[token] = (logits[token] as number) - (dry.penalties[place] as number);
  }
}
