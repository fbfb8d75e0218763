// The oracle: samples one token per row in plain TypeScript, sorting whole vocabularies; native code agrees bit
// for bit. Stages: bias, penalties, exclusions -> temperature -> top-k -> typical-p -> top-p -> min-p -> sample, each
// taking the survivors of the one before as the whole distribution. Temperature first is what OpenAI, Hugging Face
// and vLLM mean by top_p (llama.cpp filters before it); vLLM has min-p ahead of top-k, which then sees less tail.

import { adjustedLogits } from './adjusted-logits.ts';
import { type Candidates, sampleToken, thinOut, weighCandidates } from './candidates.ts';
import { tokenLogprobs } from './log-probabilities.ts';
import { GREEDY_BELOW, type SamplingParameters } from './parameters.ts';
import { uniformAt } from './random.ts';
import { checkRows, type SampleResult, type SampleRow, type SampleRows } from './sample-row.ts';

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
  // All candidates are known, so that one is sampled.
  const token = isGreedy(parameters)
    ? adjusted.indexOf(highest)
    : (sampleFrom(weighCandidates(adjusted, highest, parameters.temperature), row) as number);
  if (parameters.logprobs === undefined) return { ok: true, token };
  return { ok: true, token, logprobs: tokenLogprobs(logits, token, parameters.logprobs) };
}

export function isGreedy({ temperature }: SamplingParameters): boolean {
  return temperature < GREEDY_BELOW;
}

/** Where only the first candidates are known, these may not decide it. */
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
