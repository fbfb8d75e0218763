// The samplers that only local servers have, under llama-server's names and vLLM's, and their conversion to the engine's names.

import { z } from 'zod';
import type { SamplingRequest } from '../../../sampling/parameters.ts';
import { samplerNames } from '../../../sampling/sampler-names.ts';
import type { Refusal } from '../../http/parse-body.ts';

const number = (description: string, bounds: { minimum?: number; maximum?: number } = {}) =>
  z
    .number()
    .meta({ ...bounds, description })
    .optional();
const count = (description: string, minimum = 0) => z.int().meta({ minimum, description }).optional();
const share = { minimum: 0, maximum: 1 };

export const samplerFields = {
  repeat_penalty: number('The same as repetition_penalty.'),
  repeat_last_n: count(
    'Penalties count this many of the last tokens, prompt and answer alike; -1 for all. Without it repetition_penalty counts prompt and answer, the others the answer.',
    -1,
  ),
  dry_multiplier: number('DRY: what a token loses that would go on with a repetition. Default 0, off.', {
    minimum: 0,
  }),
  dry_base: number('DRY: it loses so many times more with each further token. Default 1.75.', { minimum: 1 }),
  dry_allowed_length: count('DRY: shorter repetitions cost nothing. Default 2.'),
  dry_penalty_last_n: count('DRY looks at this many of the last tokens; -1 for all. Default -1.', -1),
  dry_sequence_breakers: z
    .array(z.string())
    .meta({ description: 'DRY: no repetition reaches across these texts. Default "\\n", ":", "\\"", "*".' })
    .optional(),
  xtc_probability: number('How often XTC excludes the likeliest tokens. Default 0, off.', share),
  xtc_threshold: number('Of tokens at least this likely, XTC leaves the least likely. Default 0.1.', share),
  mirostat: z
    .int()
    .meta({
      minimum: 0,
      maximum: 2,
      description: 'Mirostat 1 or 2, in place of other filters. Default 0, off.',
    })
    .optional(),
  mirostat_tau: number('The surprise that mirostat aims at, in bits. Default 5.', { minimum: 0 }),
  mirostat_eta: number('How fast mirostat learns. Default 0.1.', { minimum: 0 }),
  dynatemp_range: number(
    'The temperature follows the entropy, by at most this much to either side. Default 0, off.',
    { minimum: 0 },
  ),
  dynatemp_exponent: number('The power by which it follows. Default 1.', { minimum: 0 }),
  top_n_sigma: number(
    'Tokens within this many standard deviations of the highest logit stay; 0 or less is off. Default -1.',
  ),
  min_keep: count('top_p, min_p, typical_p and XTC leave at least this many tokens. Default 0.'),
  samplers: z
    .union([z.string(), z.array(z.string())], 'must be a list of names, or a text of letters')
    .meta({
      description: `Which samplers apply, and in what order: of ${samplerNames.join(', ')}, or llama.cpp's letters. Default: all, temperature before the filters.`,
    })
    .optional(),
  bad_words: z
    .array(z.string())
    .meta({ description: 'Texts that the answer never has, as tokens spell them.' })
    .optional(),
  allowed_token_ids: z
    .array(z.int())
    .meta({ description: 'The only tokens that the answer may have.' })
    .optional(),
};

export const samplerRefusals: Readonly<Record<string, Refusal>> = {
  repeat_penalty: (value, { repetition_penalty: other }) =>
    other === undefined || other === value ? undefined : `contradicts repetition_penalty, which is ${other}`,
};

type SamplerBody = z.infer<z.ZodObject<typeof samplerFields>>;

export function samplerRequest(body: SamplerBody): SamplingRequest {
  return {
    repeatLastN: body.repeat_last_n,
    dryMultiplier: body.dry_multiplier,
    dryBase: body.dry_base,
    dryAllowedLength: body.dry_allowed_length,
    dryPenaltyLastN: body.dry_penalty_last_n,
    drySequenceBreakers: body.dry_sequence_breakers,
    xtcProbability: body.xtc_probability,
    xtcThreshold: body.xtc_threshold,
    mirostat: body.mirostat,
    mirostatTau: body.mirostat_tau,
    mirostatEta: body.mirostat_eta,
    dynatempRange: body.dynatemp_range,
    dynatempExponent: body.dynatemp_exponent,
    topNSigma: body.top_n_sigma,
    minKeep: body.min_keep,
    samplers: body.samplers,
    badWords: body.bad_words,
    allowedTokenIds: body.allowed_token_ids,
  };
}
