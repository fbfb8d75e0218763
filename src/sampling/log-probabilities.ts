// Log-probabilities as clients see them: ln softmax of the model's own logits, untouched by bias, penalties,
// masks and temperature (as OpenAI and vLLM report them by default), so they may be compared across requests.

import { naturalLogarithm, scaleLogit, unitBitsFor, weightOf } from './exponential.ts';
import type { SampledToken, TokenLogprob } from './sample-row.ts';

/** The chosen token's, and the `count` most likely tokens'; tokens the model itself excludes are not listed. */
export function tokenLogprobs(
  logits: Float32Array,
  token: number,
  count: number,
): NonNullable<SampledToken['logprobs']> {
  const highest = logits.reduce((most, logit) => Math.max(most, logit));
  const unitBits = unitBitsFor(logits.length);
  const total = logits.reduce((sum, logit) => sum + weightOf(scaleLogit(logit, highest, 1), unitBits), 0);
  const logTotal = naturalLogarithm(total / 2 ** unitBits);
  // Adding zero turns -0 to 0.
  const logprobOf = (id: number) => Math.fround((logits[id] as number) - highest - logTotal + 0);
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
