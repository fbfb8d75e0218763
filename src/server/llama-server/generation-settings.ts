// The settings of an answer under llama-server's names: `generation_settings`, and the defaults in /props.

import { wireNames } from '../../generation/sampling-settings.ts';
import type { ServedModel } from '../../pool/served-model.ts';
import type { SamplingParameters } from '../../sampling/parameters.ts';
import { temperatureFirst } from '../../sampling/sampler-names.ts';

/** What llama-server calls parameters that have another name here. */
const otherNames: Readonly<Record<string, string>> = {
  repetition_penalty: 'repeat_penalty',
  logprobs: 'n_probs',
};

/** Of what is not there: switched off, as llama-server writes that. */
const off = {
  dynatemp_range: 0,
  dynatemp_exponent: 1,
  top_n_sigma: -1,
  xtc_probability: 0,
  xtc_threshold: 0.1,
  repeat_last_n: -1,
  dry_multiplier: 0,
  dry_base: 1.75,
  dry_allowed_length: 2,
  dry_penalty_last_n: -1,
  dry_sequence_breakers: [],
  mirostat: 0,
  mirostat_tau: 5,
  mirostat_eta: 0.1,
  adaptive_target: -1,
  adaptive_decay: 0.9,
  n_probs: 0,
  n_keep: 0,
  n_discard: 0,
  min_keep: 0,
  post_sampling_probs: false,
  backend_sampling: false,
  samplers: temperatureFirst,
};

interface SettingsOf {
  readonly parameters: SamplingParameters;
  readonly model: Pick<ServedModel, 'tokenizer'>;
  readonly stops: readonly string[];
  readonly stream: boolean;
  readonly limit: number | undefined;
  readonly grammar: string;
  readonly timingsPerToken: boolean;
}

export function generationSettings(asked: SettingsOf): Readonly<Record<string, unknown>> {
  const { parameters, limit = -1 } = asked;
  const sampled = Object.entries(wireNames).flatMap(([name, wire]) => {
    const value: unknown = parameters[name as keyof SamplingParameters];
    // They are tokens by now, thousands of them.
    if (name === 'drySequenceBreakers' || name === 'badWords') return [];
    return value === undefined ? [] : [[otherNames[wire] ?? wire, value]];
  });
  return {
    ...off,
    ...Object.fromEntries(sampled),
    seed: Number(BigInt.asIntN(64, (BigInt(parameters.seed.high) << 32n) | BigInt(parameters.seed.low))),
    n_predict: limit,
    max_tokens: limit,
    stop: asked.stops,
    stream: asked.stream,
    logit_bias: biasesOf(asked),
    grammar: asked.grammar,
    timings_per_token: asked.timingsPerToken,
    lora: [],
  };
}

/** llama-server ignores end tokens by a bias of minus infinity, which JSON writes as null. */
function biasesOf({ parameters, model }: SettingsOf): readonly object[] {
  const ends = parameters.ignoreEos ? [...model.tokenizer.eosIds] : [];
  return [...parameters.logitBias, ...ends.map((token) => ({ token, bias: null }))];
}
