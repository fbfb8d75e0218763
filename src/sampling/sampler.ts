// The oracle: samples one token per row in plain TypeScript; native code agrees bit for bit. The usual stages are bias,
// penalties, exclusions -> temperature -> top-k -> typical-p -> top-p -> min-p -> sample; each takes what the one before
// left as the whole distribution. vLLM has min-p before top-k, which then sees less tail. Other stages and orders: chain.ts.

import { type Candidates, sampleCandidate, type TokenLogit, thinOut, weighCandidates } from './candidates.ts';
import { type ChainSample, needsChain, plainRow, sampleChain } from './chain.ts';
import { naturalLogarithm, scaleLogit, unitBitsFor, weightOf } from './exponential.ts';
import { adjustedLogits, biasedLogits } from './logit-edits.ts';
import { GREEDY_BELOW, type SamplingParameters } from './parameters.ts';
import { uniformAt } from './random.ts';
import {
  checkRows,
  type SampleResult,
  type SampleRow,
  type SampleRows,
  type TokenLogprobs,
} from './sample-row.ts';

export const sampleRows: SampleRows = (logits, vocabSize, rows) => {
  checkRows(logits, vocabSize, rows);
  return rows.map((row, index) =>
    sampleRow(logits.subarray(index * vocabSize, (index + 1) * vocabSize), row),
  );
};

function sampleRow(logits: Float32Array, row: SampleRow): SampleResult {
  if (!isComputable(logits)) {
    return { ok: false, error: 'numeric-error' };
  }
  if (row.given !== undefined) return scoreGiven(logits, row.given, row);
  const chained = needsChain(row);
  const adjusted = chained ? biasedLogits(logits, row) : adjustedLogits(logits, row);
  const highest = highestOf(adjusted);
  if (highest === -Infinity) return { ok: false, error: 'no-candidate' };
  if (highest === Infinity) return { ok: false, error: 'numeric-error' };
  const sampled = chained ? sampleChain(adjusted, row) : { token: samplePlain(adjusted, highest, row) };
  return withLogprobs(sampled, logits, row);
}

function scoreGiven(logits: Float32Array, token: number, { parameters }: SampleRow): SampleResult {
  if (highestOf(logits) === -Infinity) return { ok: false, error: 'no-candidate' };
  const logprobs = tokenLogprobs(logits, token, parameters.logprobs ?? 0);
  return { ok: true, token, logprobs: { ...logprobs, rank: rankOf(logits, token) } };
}

function rankOf(logits: Float32Array, token: number): number {
  const own = logits[token] as number;
  let rank = 1;
  for (let other = 0; other < logits.length; other++) {
    const logit = logits[other] as number;
    if (logit > own || (logit === own && other < token)) rank++;
  }
  return rank;
}

function samplePlain(adjusted: Float32Array, highest: number, row: SampleRow): number {
  const { parameters } = row;
  if (isGreedy(parameters)) return adjusted.indexOf(highest);
  return sampleFrom(weighCandidates(adjusted, highest, parameters.temperature), row) as number;
}

function withLogprobs(sampled: ChainSample, logits: Float32Array, { parameters }: SampleRow): SampleResult {
  if (parameters.logprobs === undefined) return { ok: true, ...sampled };
  return { ok: true, ...sampled, logprobs: tokenLogprobs(logits, sampled.token, parameters.logprobs) };
}

/** Rows that need the chain are sampled here, the others by a backend's own code. */
export function withChains(sampleOwn: SampleRows): SampleRows {
  return (logits, vocabSize, rows) => {
    checkRows(logits, vocabSize, rows);
    if (!rows.some(needsChain)) return sampleOwn(logits, vocabSize, rows.map(plainRow));
    const results: SampleResult[] = [];
    while (results.length < rows.length) {
      const from = results.length;
      const isChained = needsChain(rows[from] as SampleRow);
      const next = rows.findIndex((row, at) => at > from && needsChain(row) !== isChained);
      const some = rows.slice(from, next === -1 ? rows.length : next);
      const own = logits.subarray(from * vocabSize, (from + some.length) * vocabSize);
      results.push(
        ...(isChained ? sampleRows : sampleOwn)(own, vocabSize, isChained ? some : some.map(plainRow)),
      );
    }
    return results;
  };
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
  return survivors && sampleCandidate(survivors, uniformAt(parameters.seed, position, choice))?.token;
}

function isComputable(logits: Float32Array): boolean {
  for (let token = 0; token < logits.length; token++)
    if (!((logits[token] as number) < Infinity)) return false;
  return true;
}

function highestOf(logits: Float32Array): number {
  let highest = -Infinity;
  for (let token = 0; token < logits.length; token++) highest = Math.max(highest, logits[token] as number);
  return highest;
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
