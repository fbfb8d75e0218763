// A row's logits after everything that works on single tokens: logit bias, then penalties (so that a bias
// counts as the model's own opinion, as in vLLM), then exclusions. Results are float32 again, as the
// model's logits are; an excluded token has -Infinity.

import type { SampleRow } from './sample-row.ts';
import { needsCounts } from './token-counts.ts';

export function adjustedLogits(logits: Float32Array, row: SampleRow): Float32Array {
  const adjusted = logits.slice();
  for (const { token, bias } of row.parameters.logitBias) {
    adjusted[token] = (adjusted[token] as number) + bias;
  }
  if (needsCounts(row.parameters)) penalize(adjusted, row);
  for (const token of row.forbidden) adjusted[token] = -Infinity;
  if (row.mask !== undefined) applyMask(adjusted, row.mask);
  return adjusted;
}

/** Repetition looks at prompt and answer, as Hugging Face has it; presence and frequency at the answer, as OpenAI. */
function penalize(adjusted: Float32Array, { parameters, counts }: SampleRow): void {
  if (counts === undefined) throw new Error('sampling: penalties need the counts of tokens seen');
  const { repetitionPenalty, presencePenalty, frequencyPenalty } = parameters;
  for (const [place, token] of counts.ids.entries()) {
    let logit = adjusted[token] as number;
    logit = logit < 0 ? logit * repetitionPenalty : logit / repetitionPenalty;
    const generated = counts.generated[place] as number;
    if (generated > 0) logit = logit - generated * frequencyPenalty - presencePenalty;
    adjusted[token] = logit;
  }
}

function applyMask(adjusted: Float32Array, mask: Uint32Array): void {
  for (let token = 0; token < adjusted.length; token++) {
    const allowed = ((mask[token >>> 5] as number) >>> (token & 31)) & 1;
    if (allowed === 0) adjusted[token] = -Infinity;
  }
}
