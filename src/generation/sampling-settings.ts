// Checked sampling parameters, and the caller's names for them: JSON fields, options of a function, flags of a
// command.

import { randomBytes } from 'node:crypto';
import { type SamplingParameters, type SamplingRequest, validateSampling } from '../sampling/parameters.ts';
import { type Seed, seedFrom } from '../sampling/random.ts';
import type { ParameterNames, SamplingNames } from './generation-error.ts';
import { invalid } from './generation-error.ts';

export function samplingSettings(
  request: SamplingRequest,
  vocabSize: number,
  names: ParameterNames,
): SamplingParameters {
  const result = validateSampling(request, { vocabSize, freshSeed: freshSeed() });
  if (result.ok) return result.parameters;
  throw invalid(names[result.parameter], result.problem);
}

function freshSeed(): Seed {
  return seedFrom(randomBytes(8).readBigUInt64LE());
}

export const wireNames = {
  temperature: 'temperature',
  topK: 'top_k',
  topP: 'top_p',
  minP: 'min_p',
  typicalP: 'typical_p',
  repetitionPenalty: 'repetition_penalty',
  presencePenalty: 'presence_penalty',
  frequencyPenalty: 'frequency_penalty',
  logitBias: 'logit_bias',
  seed: 'seed',
  logprobs: 'logprobs',
  stopIds: 'stop_token_ids',
  minTokens: 'min_tokens',
  maxTokens: 'max_tokens',
  ignoreEos: 'ignore_eos',
} as const satisfies SamplingNames;

export const ownNames = Object.fromEntries(Object.keys(wireNames).map((name) => [name, name])) as unknown as {
  readonly [Name in keyof SamplingNames]: Name;
};

export const flagNames = Object.fromEntries(
  Object.entries(wireNames).map(([name, wire]) => [name, `--${wire.replaceAll('_', '-')}`]),
) as unknown as SamplingNames;
