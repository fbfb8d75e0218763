// Checked sampling parameters, and the caller's names for them: JSON fields, options of a function, flags of a
// command.

import { randomBytes } from 'node:crypto';
import type { ServedModel } from '../pool/served-model.ts';
import { type SamplingParameters, type SamplingRequest, validateSampling } from '../sampling/parameters.ts';
import { type Seed, seedFrom } from '../sampling/random.ts';
import type { ParameterNames, SamplingNames } from './generation-error.ts';
import { invalid } from './generation-error.ts';
import { spellingOf } from './spelling.ts';

export type SampledModel = Pick<ServedModel, 'spec' | 'tokenizer'>;

export function samplingSettings(
  request: SamplingRequest,
  { spec, tokenizer }: SampledModel,
  names: ParameterNames,
): SamplingParameters {
  const context = { vocabSize: spec.vocabSize, freshSeed: freshSeed(), spelling: spellingOf(tokenizer) };
  const result = validateSampling(request, context);
  if (result.ok) return result.parameters;
  throw invalid(names[result.parameter], result.problem);
}

/** Of 53 bits, so that JSON carries it exactly where it is shown, and it may be sent again. */
function freshSeed(): Seed {
  return seedFrom(randomBytes(8).readBigUInt64LE() >> 11n);
}

export const wireNames = {
  temperature: 'temperature',
  dynatempRange: 'dynatemp_range',
  dynatempExponent: 'dynatemp_exponent',
  topK: 'top_k',
  topP: 'top_p',
  minP: 'min_p',
  typicalP: 'typical_p',
  topNSigma: 'top_n_sigma',
  xtcProbability: 'xtc_probability',
  xtcThreshold: 'xtc_threshold',
  minKeep: 'min_keep',
  mirostat: 'mirostat',
  mirostatTau: 'mirostat_tau',
  mirostatEta: 'mirostat_eta',
  samplers: 'samplers',
  repetitionPenalty: 'repetition_penalty',
  repeatLastN: 'repeat_last_n',
  presencePenalty: 'presence_penalty',
  frequencyPenalty: 'frequency_penalty',
  dryMultiplier: 'dry_multiplier',
  dryBase: 'dry_base',
  dryAllowedLength: 'dry_allowed_length',
  dryPenaltyLastN: 'dry_penalty_last_n',
  drySequenceBreakers: 'dry_sequence_breakers',
  logitBias: 'logit_bias',
  badWords: 'bad_words',
  allowedTokenIds: 'allowed_token_ids',
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
