// Log-probabilities as clients see them: ln softmax of the model's own logits, untouched by bias, penalties,
// masks and temperature (as OpenAI and vLLM report them by default), so they may be compared across requests.

import { exponential, LaneSum, naturalLogarithm } from './exponential.ts';
import type { SampledToken, TokenLogprob } from './sample-row.ts';

/** The chosen token's, and the `count` most likely tokens'; tokens the model itself excludes are not listed. */
export function tokenLogprobs(
  logits: Float32Array,
  token: number,
  count: number,
): NonNullable<SampledToken['logprobs']> {
  const highest = logits.reduce((most, logit) => Math.max(most, logit));
  const sum = new LaneSum();
  for (const [id, logit] of logits.entries()) sum.add(id, exponential(logit - highest));
  const logTotal = naturalLogarithm(sum.total());
  const logprobOf = (id: number) => Math.fround((logits[id] as number) - highest - logTotal);
  const top: readonly TokenLogprob[] = mostLikely(logits, count).map((id) => ({
    token: id,
    logprob: logprobOf(id),
  }));
  return { logprob: logprobOf(token), top };
}

function mostLikely(logits: Float32Array, count: number): readonly number[] {
  if (count === 0) return [];
  return [...logits.keys()]
    .filter((id) => logits[id] !== -Infinity)
    .sort((a, b) => (logits[b] as number) - (logits[a] as number) || a - b)
    .slice(0, count);
}
