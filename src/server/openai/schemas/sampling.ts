// The sampling parameters that chat and text completions share, and their conversion to the engine's names. Types are checked
// here; the engine alone checks ranges.

import { z } from 'zod';
import type { ParameterNames } from '../../../generation/generation-error.ts';
import { type SampledModel, samplingSettings, wireNames } from '../../../generation/sampling-settings.ts';
import type { ServedModel } from '../../../pool/served-model.ts';
import { MAX_LOGPROBS } from '../../../sampling/parameter-checks.ts';
import {
  defaultableNames,
  MAX_REPETITION_PENALTY,
  MAX_TEMPERATURE,
  MIN_REPETITION_PENALTY,
  type SamplingParameters,
  type SamplingRequest,
} from '../../../sampling/parameters.ts';
import { badRequest } from '../../http/errors.ts';
import type { KnownKeys } from '../../http/unknown-keys.ts';
import type { Scoring } from '../../jobs/scored-prompts.ts';
import type { ServerSettings } from '../../settings.ts';
import { peerRefusals } from './peer-parameters.ts';
import { requestOptions } from './request-options.ts';
import { samplerFields, samplerRefusals, samplerRequest } from './samplers.ts';

export const MAX_STOPS = 16;
const MAX_STOP_CHARACTERS = 1024;

const number = (minimum: number, maximum: number, description: string) =>
  z.number().meta({ minimum, maximum, description }).optional();
const count = (minimum: number, description: string) => z.int().meta({ minimum, description }).optional();

export const stopString = z
  .string()
  .min(1)
  .max(MAX_STOP_CHARACTERS)
  .refine((text) => !/\p{Surrogate}/u.test(text), 'half a surrogate pair is no character');

export const samplingFields = {
  model: z.string().meta({ description: "A model's name; the default model where absent." }).optional(),
  n: z.int().meta({ minimum: 1, description: 'Answers to each prompt. Default 1.' }).optional(),
  stream: z
    .boolean()
    .meta({ description: 'Send the answer as server-sent events. Default false.' })
    .optional(),
  stream_options: z
    .object({
      include_usage: z.boolean().meta({ description: 'End with a chunk that has the usage.' }).nullish(),
    })
    .optional(),
  stop: z
    .union(
      [stopString, z.array(stopString).max(MAX_STOPS)],
      `must be a text of 1 to ${MAX_STOP_CHARACTERS} characters, or a list of up to ${MAX_STOPS} such texts`,
    )
    .meta({ description: `Up to ${MAX_STOPS} texts that end the answer and are not shown.` })
    .optional(),
  temperature: number(0, MAX_TEMPERATURE, '0 takes the likeliest token each time. Default 1.'),
  top_p: number(
    0,
    1,
    'The likeliest tokens that together hold this share stay; 0 leaves one. Default 1, off.',
  ),
  top_k: z
    .int()
    .meta({
      minimum: -1,
      description: 'Only this many of the likeliest tokens stay; 0 or -1 is off. Default 0.',
    })
    .optional(),
  min_p: number(0, 1, "Tokens below this share of the likeliest one's probability go. Default 0, off."),
  typical_p: z
    .number()
    .meta({
      exclusiveMinimum: 0,
      maximum: 1,
      description: 'Tokens of the most typical surprise that hold this share stay. Default 1, off.',
    })
    .optional(),
  repetition_penalty: number(
    MIN_REPETITION_PENALTY,
    MAX_REPETITION_PENALTY,
    'Makes tokens seen before less likely; 1 is off. Default 1.',
  ),
  ...samplerFields,
  ...requestOptions,
  presence_penalty: number(-2, 2, 'Taken off the logits of tokens already generated. Default 0.'),
  frequency_penalty: number(-2, 2, 'Taken off once for each time a token was generated. Default 0.'),
  logit_bias: z
    .record(z.string(), z.number())
    .meta({ description: 'Added to the logits of the given token ids, -100 to 100.' })
    .optional(),
  seed: z.number().meta({ type: 'integer', description: 'The same seed gives the same answer.' }).optional(),
  max_tokens: count(1, 'The answer ends here at the latest, and where the context is full.'),
  min_tokens: count(0, 'So many tokens come before anything ends the answer. Default 0.'),
  stop_token_ids: z
    .array(z.int())
    .meta({ description: 'Tokens that end the answer and are not shown.' })
    .optional(),
  ignore_eos: z
    .boolean()
    .meta({ description: "Go on past the model's own end tokens. Default false." })
    .optional(),
  service_tier: z
    .string()
    .meta({ description: 'There is one tier, that of the key; it is returned as "default".' })
    .optional(),
  skip_special_tokens: z
    .boolean()
    .meta({ description: 'Leave control tokens out of the text. Default true.' })
    .optional(),
};

export const promptLogprobs = z
  .int()
  .meta({
    minimum: 0,
    maximum: MAX_LOGPROBS,
    description:
      'Return how likely each token of the prompt is, with this many alternatives; not in streams.',
  })
  .optional();

/** `others`: the alternatives that `echo` with `logprobs` asks for. */
export function scoringOf(
  {
    prompt_logprobs: asked,
    stream,
  }: { readonly prompt_logprobs?: number | undefined; readonly stream?: boolean | undefined },
  others: number | undefined,
): Scoring | undefined {
  if (asked === undefined)
    return others === undefined ? undefined : { alternatives: others, field: 'logprobs' };
  if (stream === true) throw badRequest('prompt_logprobs', 'is not possible where stream is true');
  if (asked < 0 || asked > MAX_LOGPROBS) {
    throw badRequest('prompt_logprobs', `must be a whole number from 0 to ${MAX_LOGPROBS}`);
  }
  return { alternatives: Math.max(asked, others ?? 0), field: 'prompt_logprobs' };
}

export const sharedNoOps = [
  'user',
  'metadata',
  'store',
  'safety_identifier',
  'prompt_cache_key',
  'prompt_cache_retention',
] as const;

export const sharedRefusals = {
  ...samplerRefusals,
  ...peerRefusals,
};

/** Keys inside of parameters that chats and texts have. */
export const sharedKnownKeys: KnownKeys = {
  // There is nothing to obfuscate: it is accepted as it is at OpenAI.
  stream_options: ['include_usage', 'include_obfuscation'],
  response_format: ['type', 'json_schema', 'schema'],
  'response_format.json_schema': ['name', 'description', 'schema', 'strict'],
};

export type SamplingBody = z.infer<z.ZodObject<typeof samplingFields>>;

interface SamplingExtras {
  readonly logprobs: number | undefined;
  readonly maxTokens: number | undefined;
}

export function samplingOf(
  body: SamplingBody,
  extras: SamplingExtras,
  model: SampledModel,
  names: ParameterNames,
): SamplingParameters {
  const request: SamplingRequest = {
    temperature: body.temperature,
    topK: body.top_k,
    topP: body.top_p,
    minP: body.min_p,
    typicalP: body.typical_p,
    ...samplerRequest(body),
    repetitionPenalty: body.repeat_penalty ?? body.repetition_penalty,
    presencePenalty: body.presence_penalty,
    frequencyPenalty: body.frequency_penalty,
    logitBias: biasesOf(body.logit_bias ?? {}),
    seed: body.seed,
    logprobs: extras.logprobs,
    stopIds: body.stop_token_ids,
    minTokens: body.min_tokens,
    maxTokens: extras.maxTokens,
    ignoreEos: body.ignore_eos,
  };
  return samplingSettings(request, model, names);
}

export function stopsOf({ stop = [] }: Pick<SamplingBody, 'stop'>): readonly string[] {
  return typeof stop === 'string' ? [stop] : stop;
}

export function streamsUsage(body: SamplingBody): boolean {
  if (body.stream_options !== undefined && body.stream !== true) {
    throw badRequest('stream_options', 'is only possible where stream is true');
  }
  return body.stream_options?.include_usage === true;
}

export function choicesOf({ n = 1 }: SamplingBody, maxChoices: number): number {
  if (n >= 1 && n <= maxChoices) return n;
  throw badRequest('n', `must be a whole number from 1 to ${maxChoices}`);
}

export const maxLogprobs = MAX_LOGPROBS;

function biasesOf(biases: Readonly<Record<string, number>>): { token: number; bias: number }[] {
  return Object.entries(biases).map(([key, bias]) => {
    if (!/^\d{1,10}$/.test(key)) throw badRequest('logit_bias', `'${key.slice(0, 40)}' is no token id`);
    return { token: Number(key), bias };
  });
}

/** Parameters where a request gives none, by the names of the API: the server's settings, else the model's files. */
export type WireDefaults = Readonly<Record<string, number>>;

export function samplingDefaults(
  { samplingDefaults: set, useModelSampling }: ServerSettings,
  { sampling = {} }: Pick<ServedModel, 'sampling'>,
): WireDefaults {
  const defaults: Record<string, number> = {};
  for (const name of defaultableNames) {
    const value = set[name] ?? (useModelSampling ? sampling[name] : undefined);
    if (value !== undefined) defaults[wireNames[name]] = value;
  }
  return defaults;
}

export function withDefaults<Body extends object>(body: Body, defaults: WireDefaults): Body {
  return { ...defaults, ...body };
}
