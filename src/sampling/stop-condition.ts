// When an answer ends, as far as token ids tell: end tokens, stop ids, the least and the most tokens.
// Stop strings are the text layer's.

import type { SamplingParameters } from './parameters.ts';

export type FinishReason = 'stop' | 'length';

/** Whether an answer of `generated` tokens ends with its last one, `token`. An end token counts on top of the minimum. */
export function finishReason(
  parameters: SamplingParameters,
  endIds: readonly number[],
  token: number,
  generated: number,
): FinishReason | undefined {
  if (generated > parameters.minTokens && isStop(parameters, endIds, token)) return 'stop';
  return generated === parameters.maxTokens ? 'length' : undefined;
}

/** What may not be sampled after `generated` tokens: whatever would end an answer still too short. */
export function forbiddenIds(
  parameters: SamplingParameters,
  endIds: readonly number[],
  generated: number,
): readonly number[] {
  if (generated >= parameters.minTokens) return [];
  return parameters.ignoreEos ? parameters.stopIds : [...parameters.stopIds, ...endIds];
}

function isStop(parameters: SamplingParameters, endIds: readonly number[], token: number): boolean {
  return parameters.stopIds.includes(token) || (!parameters.ignoreEos && endIds.includes(token));
}
