// The bodies of llama-server's /completion and /infill. Sampling and structured output are read by the schemas that all
// protocols share.

import { z } from 'zod';
import type { BodyRules, Refusal } from '../http/parse-body.ts';
import { promptField } from '../openai/schemas/prompts.ts';
import { maxLogprobs, samplingFields, sharedNoOps, sharedRefusals } from '../openai/schemas/sampling.ts';
import { structuredOutputFields } from '../openai/schemas/structured-output.ts';

/** `false` is a token that never comes. */
const bias = z.union([z.number(), z.literal(false)]);
const biasedTokens = z.union([z.int(), z.string()]);

/** Of adapters by their numbers. */
export const adapterScalesSchema = z.array(z.object({ id: z.int(), scale: z.number() }));

const commonFields = {
  ...samplingFields,
  ...structuredOutputFields,
  logit_bias: z
    .union(
      [z.array(z.tuple([biasedTokens, bias])), z.record(z.string(), bias)],
      'must be a list of pairs, or an object: token ids or texts, each with a number or false',
    )
    .meta({ description: 'Added to the logits of tokens, given by their ids or as texts.' })
    .optional(),
  n_predict: z
    .int()
    .meta({ minimum: -2, description: 'The same as max_tokens; -1 sets no limit. Default -1.' })
    .optional(),
  n_cmpl: samplingFields.n,
  n_probs: z
    .int()
    .meta({ minimum: 0, maximum: maxLogprobs, description: 'Return the likeliest tokens. Default 0.' })
    .optional(),
  return_tokens: z
    .boolean()
    .meta({ description: 'Return the ids of the answer’s tokens. Default false; always in a stream.' })
    .optional(),
  timings_per_token: z
    .boolean()
    .meta({ description: 'Every message of a stream has timings. Default false.' })
    .optional(),
  response_fields: z
    .array(z.string())
    .meta({ description: 'Only these fields of the answer; `a/b` is the field b of a.' })
    .optional(),
  lora: adapterScalesSchema
    .meta({
      description:
        'One of /lora-adapters with the scale 1; all others have 0. Default: what POST /lora-adapters has set.',
    })
    .optional(),
};

const picturedPrompt = z.strictObject({
  prompt_string: z.string(),
  multimodal_data: z.array(z.string()).meta({
    description: 'Images in base64, one for each <__media__> of the text.',
  }),
});

export type PicturedGiven = z.infer<typeof picturedPrompt>;

export const completionSchema = z.object({
  prompt: z.union([
    picturedPrompt,
    promptField('What to continue. Several prompts are answered independently.'),
  ]),
  image_data: z
    .array(z.looseObject({ data: z.string(), id: z.int() }))
    .meta({ description: 'Images in base64; [img-N] in the prompt says where the one with the id N is.' })
    .optional(),
  ...commonFields,
});

export const infillSchema = z.object({
  input_prefix: z.string().meta({ description: 'What stands before the gap. Default empty.' }).optional(),
  input_suffix: z.string().meta({ description: 'What comes after it. Default empty.' }).optional(),
  input_extra: z
    .array(z.looseObject({ filename: z.string().optional(), text: z.string() }))
    .meta({ description: 'Other files that may help.' })
    .optional(),
  prompt: z.string().meta({ description: 'How the answer begins already. Default empty.' }).optional(),
  ...commonFields,
});

export type CommonGiven = z.infer<z.ZodObject<typeof commonFields>>;

/** They say where and how llama-server computes an answer, and not what it is. */
const noOps = [
  ...sharedNoOps,
  'backend_sampling',
  'cache_prompt',
  'n_cache_reuse',
  'n_discard',
  'n_keep',
  'sse_ping_interval',
];

const unless =
  (off: readonly unknown[], problem: string): Refusal =>
  (value) =>
    off.includes(value) ? undefined : problem;

/** Adapters are chosen here as llama-server's clients do it. */
const { lora: _, ...shared } = sharedRefusals;

const refused = {
  ...shared,
  adaptive_target: (value: unknown) =>
    typeof value === 'number' && value < 0 ? undefined : 'adaptive-p sampling is not supported',
  grammar_lazy: unless([false], 'is not supported; a grammar holds from the first token on'),
  n_indent: unless([0], 'is not supported'),
  post_sampling_probs: unless([false], 'is not supported; n_probs returns those of the model'),
};

export const completionRules: BodyRules<typeof completionSchema> = {
  schema: completionSchema,
  noOps,
  refused,
  tokenLists: ['prompt'],
};

export const infillRules: BodyRules<typeof infillSchema> = { schema: infillSchema, noOps, refused };
