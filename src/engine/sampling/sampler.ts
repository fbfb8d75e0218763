// The oracle: draws one token per row in plain TypeScript, sorting whole vocabularies. Native code must
// agree with it bit for bit. The order of the stages:
//   bias, penalties, exclusions -> temperature -> top-k -> typical-p -> top-p -> min-p -> draw
// Each stage sees the survivors of the one before as the whole distribution. Top-k before top-p is what all
// servers do; vLLM puts min-p first (top-p then sees less tail), llama.cpp as here but with temperature
// last (filters then ignore it); OpenAI's and Hugging Face's meaning of top_p under a temperature needs it first.

import { adjustedLogits } from './adjusted-logits.ts';
import { drawToken, keepMinP, keepTopK, keepTopP, keepTypical, weighCandidates } from './candidates.ts';
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
  const token =
    parameters.temperature < GREEDY_BELOW
      ? adjusted.indexOf(highest)
      : draw(adjusted, highest, parameters, uniformAt(parameters.seed, row.position, row.choice));
  if (parameters.logprobs === undefined) return { ok: true, token };
  return { ok: true, token, logprobs: tokenLogprobs(logits, token, parameters.logprobs) };
}

function draw(
  adjusted: Float32Array,
  highest: number,
  parameters: SamplingParameters,
  uniform: number,
): number {
  let candidates = weighCandidates(adjusted, highest, parameters.temperature);
  candidates = keepTopK(candidates, parameters.topK);
  candidates = keepTypical(candidates, parameters.typicalP);
  candidates = keepTopP(candidates, parameters.topP);
  candidates = keepMinP(candidates, parameters.minP);
  return drawToken(candidates, uniform);
}

function highestOf(logits: Float32Array): number {
  return logits.reduce((highest, logit) => Math.max(highest, logit), -Infinity);
}
