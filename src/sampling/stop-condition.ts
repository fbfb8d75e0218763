// When token ids end an answer. Stop strings belong to src/text.

import type { SamplingParameters } from './parameters.ts';

export type FinishReason = 'stop' | 'length';

/** What ended an answer: the model's own end token, or a stop id of the request. Neither is part of its text. */
export type StopToken = 'eos' | 'stop-id';

/**
 * Whether an answer of `generated` tokens ends with its last one, `token`. An end token is not counted in the
 * minimum.
 */
export function finishReason(
  parameters: SamplingParameters,
  endIds: readonly number[],
  token: number,
  generated: number,
): FinishReason | undefined {
  if (stopToken(parameters, endIds, token, generated) !== undefined) return 'stop';
  return generated === parameters.maxTokens ? 'length' : undefined;
}

/** The same for tokens that stop an answer, whatever its length. */
export function stopToken(
  parameters: SamplingParameters,
  endIds: readonly number[],
  token: number,
  generated: number,
): StopToken | undefined {
  if (generated <= parameters.minTokens || !isStop(parameters, endIds, token)) return undefined;
  return endIds.includes(token) ? 'eos' : 'stop-id';
}

/** What may not be sampled after `generated` tokens: any end of an answer that is still too short. */
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
