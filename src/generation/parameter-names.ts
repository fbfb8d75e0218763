// What the asker calls its parameters: JSON fields, options of a function, flags of a command. Refusals use these
// names, so that they need no translation.

import type { SamplingParameters } from '../sampling/parameters.ts';

type SamplingNames = Readonly<Record<keyof SamplingParameters, string>>;

export interface ParameterNames extends SamplingNames {
  readonly prompt: string;
}

/** JSON fields, as OpenAI and local servers write them. */
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

/** As this program itself calls them. */
export const ownNames = Object.fromEntries(Object.keys(wireNames).map((name) => [name, name])) as unknown as {
  readonly [Name in keyof SamplingNames]: Name;
};

/** As the command line calls them: `--max-tokens`. */
export const flagNames = Object.fromEntries(
  Object.entries(wireNames).map(([name, wire]) => [name, `--${wire.replaceAll('_', '-')}`]),
) as unknown as SamplingNames;
