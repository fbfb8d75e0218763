// The oracle: samples one token per row in plain TypeScript; native code agrees bit for bit. Stages: bias, penalties,
// exclusions -> temperature -> top-k -> typical-p -> top-p -> min-p -> sample; each takes what the one before left as
// the whole distribution. Temperature first is what OpenAI, Hugging Face and vLLM mean by top_p (llama.cpp filters
// before it); vLLM has min-p before top-k, which then sees less tail.

import { type Candidates, sampleToken, type TokenLogit, thinOut, weighCandidates } from './candidates.ts';
import { naturalLogarithm, scaleLogit, unitBitsFor, weightOf } from './exponential.ts';
import { GREEDY_BELOW, type SamplingParameters } from './parameters.ts';
import { uniformAt } from './random.ts';
import {
  checkRows,
  type SampleResult,
  type SampleRow,
  type SampleRows,
  type TokenLogprobs,
} from './sample-row.ts';
import { needsCounts } from './token-counts.ts';

export const sampleRows: SampleRows = (logits, vocabSize, rows) => {
  checkRows(logits, vocabSize, rows);
  return rows.map((row, index) =>
    sampleRow(logits.subarray(index * vocabSize, (index + 1) * vocabSize), row),
  );
};

function sampleRow(logits: Float32Array, row: SampleRow): SampleResult {
  if (logits.some((logit) => Number.isNaN(logit) || logit === Infinity)) {
    return { ok: false, error: 'numeric-error' };
  }
  const adjusted = adjustedLogits(logits, row);
  const highest = highestOf(adjusted);
  if (highest === -Infinity) return { ok: false, error: 'no-candidate' };
  if (highest === Infinity) return { ok: false, error: 'numeric-error' };
  const { parameters } = row;
  const token = isGreedy(parameters)
    ? adjusted.indexOf(highest)
    : (sampleFrom(weighCandidates(adjusted, highest, parameters.temperature), row) as number);
  if (parameters.logprobs === undefined) return { ok: true, token };
  return { ok: true, token, logprobs: tokenLogprobs(logits, token, parameters.logprobs) };
}

export function isGreedy({ temperature }: SamplingParameters): boolean {
  return temperature < GREEDY_BELOW;
}

/** Undefined where the known candidates cannot decide. */
export function sampleFrom(
  candidates: Candidates,
  { parameters, position, choice }: SampleRow,
): number | undefined {
  const survivors = thinOut(candidates, parameters);
  return survivors && sampleToken(survivors, uniformAt(parameters.seed, position, choice));
}

function highestOf(logits: Float32Array): number {
  return logits.reduce((highest, logit) => Math.max(highest, logit), -Infinity);
}

/**
 * Applies what works on single tokens: logit bias, then penalties (a bias counts as the model's own opinion, as in vLLM),
 * then exclusions, which leave -Infinity. All in float32, each operation rounded, without divisions: a GPU gets the same bits.
 */
export function adjustedLogits(logits: Float32Array, row: SampleRow): Float32Array {
  const adjusted = logits.slice();
  for (const { token, bias } of row.parameters.logitBias) {
    adjusted[token] = (adjusted[token] as number) + Math.fround(bias);
  }
  if (needsCounts(row.parameters)) penalize(adjusted, row);
  for (const token of row.forbidden) adjusted[token] = -Infinity;
  if (row.mask !== undefined) applyMask(adjusted, row.mask);
  return adjusted;
}

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

/** Repetition counts prompt and answer, as in Hugging Face; presence and frequency the answer, as at OpenAI. */
function penalize(adjusted: Float32Array, { parameters, counts }: SampleRow): void {
  if (counts === undefined) throw new Error('sampling: penalties need the counts of tokens seen');
  const { repetition, inverseRepetition, presence, frequency } = penaltyFactors(parameters);
  for (const [place, token] of counts.ids.entries()) {
    const own = adjusted[token] as number;
    const logit = Math.fround(own * (own < 0 ? repetition : inverseRepetition));
    const generated = counts.generated[place] as number;
    const taken = generated > 0 ? Math.fround(Math.fround(generated * frequency) + presence) : 0;
    adjusted[token] = logit - taken;
  }
}

function applyMask(adjusted: Float32Array, mask: Uint32Array): void {
  for (let token = 0; token < adjusted.length; token++) {
    const allowed = ((mask[token >>> 5] as number) >>> (token & 31)) & 1;
    if (allowed === 0) adjusted[token] = -Infinity;
  }
}

/** Of a row, before bias, penalties, masks and temperature; a GPU computes part of it. */
interface OwnLogits {
  readonly vocabSize: number;
  readonly highest: number;
  /** Sum of the weights at temperature 1. */
  readonly total: number;
  readonly chosen: number;
  /** The most likely tokens; none with a logit of -Infinity. */
  readonly top: readonly TokenLogit[];
}

/** ln softmax of the model's own logits, as OpenAI and vLLM report by default: comparable across requests. */
function tokenLogprobs(logits: Float32Array, token: number, count: number): TokenLogprobs {
  const vocabSize = logits.length;
  const highest = highestOf(logits);
  const unitBits = unitBitsFor(vocabSize);
  const total = logits.reduce((sum, logit) => sum + weightOf(scaleLogit(logit, highest, 1), unitBits), 0);
  const chosen = logits[token] as number;
  return logprobsOf({ vocabSize, highest, total, chosen, top: mostLikely(logits, count) });
}

export function logprobsOf({ vocabSize, highest, total, chosen, top }: OwnLogits): TokenLogprobs {
  const logTotal = naturalLogarithm(total / 2 ** unitBitsFor(vocabSize));
  // Adding zero turns -0 to 0.
  const logprobOf = (logit: number) => Math.fround(logit - highest - logTotal + 0);
  return {
    logprob: logprobOf(chosen),
    top: top.map(({ token, logit }) => ({ token, logprob: logprobOf(logit) })),
  };
}

function mostLikely(logits: Float32Array, count: number): readonly TokenLogit[] {
  if (count === 0) return [];
  return Array.from(logits, (logit, token) => ({ token, logit }))
    .filter(({ logit }) => logit !== -Infinity)
    .sort((a, b) => b.logit - a.logit || a.token - b.token)
    .slice(0, count);
}
