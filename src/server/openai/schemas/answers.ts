// Schemas of answers, for the OpenAPI document; tests check real answers against them.

import { z } from 'zod';

export const errorSchema = z.object({
  error: z.object({
    message: z.string(),
    type: z.string(),
    param: z.string().nullable(),
    code: z.string().nullable(),
    n_prompt_tokens: z
      .int()
      .meta({ description: 'Tokens of a prompt that is longer than the context.' })
      .optional(),
    n_ctx: z.int().meta({ description: 'Tokens that the context holds.' }).optional(),
  }),
});

const usageSchema = z.object({
  prompt_tokens: z.int(),
  completion_tokens: z.int(),
  total_tokens: z.int(),
  prompt_tokens_details: z.object({
    cached_tokens: z.int().meta({ description: 'Prompt tokens that needed no compute.' }),
  }),
  completion_tokens_details: z.object({
    accepted_prediction_tokens: z.int().meta({ description: 'Draft tokens that are part of the answer.' }),
    rejected_prediction_tokens: z.int().meta({ description: 'Draft tokens that are not.' }),
  }),
});

const finishReason = z.enum(['stop', 'length']);
const base = {
  id: z.string(),
  created: z.int(),
  model: z.string(),
  system_fingerprint: z.string(),
  service_tier: z.literal('default').optional(),
};
const named = { token: z.string(), logprob: z.number(), bytes: z.array(z.int()) };
const chatLogprobs = z
  .object({
    content: z.array(z.object({ ...named, top_logprobs: z.array(z.object(named)) })),
    refusal: z.null(),
  })
  .nullable();
const textLogprobs = z
  .object({
    tokens: z.array(z.string()),
    token_logprobs: z
      .array(z.number().nullable())
      .meta({ description: "null for a prompt's first token, which is there with echo." }),
    top_logprobs: z.array(z.record(z.string(), z.number()).nullable()),
    text_offset: z.array(z.int()),
  })
  .nullable();

export const schemaValid = z.boolean().nullable().optional().meta({
  description:
    'Where the schema could not be enforced token by token: whether the answer is valid; null where that cannot be said.',
});

const promptLogprobs = z
  .array(
    z
      .record(z.string(), z.object({ logprob: z.number(), rank: z.int(), decoded_token: z.string() }))
      .nullable(),
  )
  .meta({ description: 'For each token of the prompt, by token id; null for the first.' })
  .optional();

const tokenIds = z.array(z.int()).optional();
const timings = z.record(z.string(), z.number()).meta({ description: "llama-server's." }).optional();
const verbose = z
  .strictObject({ prompt: z.string() })
  .meta({ description: 'What the model saw, where verbose is true.' })
  .optional();

export const chatAnswerSchema = z.strictObject({
  ...base,
  timings,
  __verbose: verbose,
  prompt_token_ids: tokenIds,
  prompt_logprobs: promptLogprobs,
  object: z.literal('chat.completion'),
  choices: z.array(
    z.strictObject({
      index: z.int(),
      message: z.strictObject({ role: z.literal('assistant'), content: z.string(), refusal: z.null() }),
      logprobs: chatLogprobs,
      finish_reason: finishReason,
      schema_valid: schemaValid,
      token_ids: tokenIds,
    }),
  ),
  usage: usageSchema,
});

export const chatChunkSchema = z.strictObject({
  ...base,
  timings,
  __verbose: verbose,
  prompt_token_ids: tokenIds,
  object: z.literal('chat.completion.chunk'),
  choices: z.array(
    z.strictObject({
      index: z.int(),
      delta: z.strictObject({ role: z.literal('assistant').optional(), content: z.string().optional() }),
      logprobs: chatLogprobs,
      finish_reason: finishReason.nullable(),
      schema_valid: schemaValid,
      token_ids: tokenIds,
    }),
  ),
  usage: usageSchema.nullable().optional(),
});

export const textAnswerSchema = z.strictObject({
  ...base,
  timings,
  object: z.literal('text_completion'),
  choices: z.array(
    z.strictObject({
      index: z.int(),
      text: z.string(),
      logprobs: textLogprobs,
      finish_reason: finishReason.nullable(),
      schema_valid: schemaValid,
      prompt_logprobs: promptLogprobs,
      token_ids: tokenIds,
      prompt_token_ids: tokenIds,
    }),
  ),
  usage: usageSchema.nullable().optional(),
});

export const promptUsageSchema = z.object({ prompt_tokens: z.int(), total_tokens: z.int() });

export const embeddingAnswerSchema = z.strictObject({
  object: z.literal('list'),
  data: z.array(
    z.strictObject({
      object: z.literal('embedding'),
      index: z.int(),
      embedding: z
        .union([z.array(z.number()), z.string()])
        .meta({ description: 'Of length 1; a text where base64 was asked for.' }),
    }),
  ),
  model: z.string(),
  usage: promptUsageSchema,
});

export const modelSchema = z.object({
  id: z.string(),
  object: z.literal('model'),
  created: z.int(),
  owned_by: z.string(),
  upstream: z.string().meta({ description: 'The upstream that serves it, where it is not here.' }).optional(),
  aliases: z.array(z.string()),
  state: z.enum(['unloaded', 'waiting', 'loading', 'loaded', 'failed', 'away']),
  generates: z
    .literal(false)
    .meta({ description: 'It makes vectors and scores of texts, and writes none.' })
    .optional(),
  modalities: z
    .array(z.enum(['text', 'image']))
    .meta({ description: 'What it reads; absent where that is not known.' })
    .optional(),
  status: z
    .strictObject({ value: z.enum(['unloaded', 'loading', 'loaded']) })
    .meta({ description: "The state in the words of llama-server's router." }),
  default_parameters: z
    .record(z.string(), z.number())
    .meta({ description: 'How answers are sampled where a request says nothing; while the model is loaded.' })
    .optional(),
});

export const modelListSchema = z.object({ object: z.literal('list'), data: z.array(modelSchema) });

const pieceSchema = z.object({
  id: z.int(),
  piece: z
    .union([z.string(), z.array(z.int())])
    .meta({ description: 'What the token spells; its bytes where they are no whole characters.' }),
});

export const tokensSchema = z.object({
  count: z.int(),
  max_model_len: z.int(),
  tokens: z.union([z.array(z.int()), z.array(pieceSchema)]),
  token_strs: z.array(z.string()).optional(),
});

export const promptSchema = z.object({ prompt: z.string() });

export const detokenizedSchema = z.object({
  prompt: z.string(),
  content: z.string().meta({ description: 'The same, as llama-server calls it.' }),
});

export const inputTokensSchema = z.object({
  object: z.literal('response.input_tokens'),
  input_tokens: z.int(),
});
