// A row's logits after everything that works on single tokens: logit bias, then penalties (so that a bias
// counts as the model's own opinion, as in vLLM), then exclusions. All in float32, each operation rounded, none of
// them a division: so that a GPU, which has nothing else, gets the same bits. An excluded token has -Infinity.

import type { SamplingParameters } from './parameters.ts';
import type { SampleRow } from './sample-row.ts';
import { needsCounts } from './token-counts.ts';

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

/** The penalties of a request as factors and differences of float32. */
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

/** Repetition looks at prompt and answer, as Hugging Face has it; presence and frequency at the answer, as OpenAI. */
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
