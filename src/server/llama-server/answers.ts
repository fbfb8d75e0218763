// The schema of llama-server's answers, for the OpenAPI document; tests check real answers against it.

import { z } from 'zod';

const named = { id: z.int(), token: z.string(), bytes: z.array(z.int()), logprob: z.number() };

const timingsSchema = z.strictObject({
  cache_n: z.int().meta({ description: 'Prompt tokens that needed no compute.' }),
  prompt_n: z.int().meta({ description: 'Prompt tokens that were computed.' }),
  prompt_ms: z.number(),
  prompt_per_token_ms: z.number(),
  prompt_per_second: z.number(),
  predicted_n: z.int(),
  predicted_ms: z.number(),
  predicted_per_token_ms: z.number(),
  predicted_per_second: z.number(),
  draft_n: z.int().optional(),
  draft_n_accepted: z.int().optional(),
});

/** A piece of a stream has no more than the fields before `model`, and timings where they were asked for. */
export const completionAnswerSchema = z.strictObject({
  index: z.int(),
  content: z.string(),
  tokens: z.array(z.int()),
  id_slot: z.int(),
  stop: z.boolean().meta({ description: 'Whether this is the end.' }),
  tokens_predicted: z.int(),
  tokens_evaluated: z.int().meta({ description: 'Tokens of the prompt.' }),
  completion_probabilities: z
    .array(z.strictObject({ ...named, top_logprobs: z.array(z.strictObject(named)) }))
    .optional(),
  timings: timingsSchema.optional(),
  model: z.string().optional(),
  generation_settings: z.record(z.string(), z.unknown()).optional(),
  prompt: z.string().optional(),
  has_new_line: z.boolean().optional(),
  truncated: z.boolean().meta({ description: 'Whether the context is full.' }).optional(),
  stop_type: z.enum(['eos', 'limit', 'word']).optional(),
  stopping_word: z.string().optional(),
  tokens_cached: z.int().optional(),
});
