// Log-probabilities as clients see them: ln softmax of the model's own logits, untouched by bias, penalties,
// masks and temperature (as OpenAI and vLLM report them by default), so they may be compared across requests.

import type { TokenLogit } from './candidates.ts';
import { naturalLogarithm, scaleLogit, unitBitsFor, weightOf } from './exponential.ts';
import type { TokenLogprobs } from './sample-row.ts';

/** What is told of a row: in part by a GPU. */
interface OwnLogits {
  readonly vocabSize: number;
  readonly highest: number;
  /** Sum of the weights at temperature 1. */
  readonly total: number;
  /** The chosen token's logit. */
  readonly chosen: number;
  /** The most likely tokens; none that the model itself excludes. */
  readonly top: readonly TokenLogit[];
}

/** The chosen token's, and the `count` most likely tokens'. */
export function tokenLogprobs(logits: Float32Array, token: number, count: number): TokenLogprobs {
  const vocabSize = logits.length;
  const highest = logits.reduce((most, logit) => Math.max(most, logit));
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
