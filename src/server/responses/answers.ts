// Schemas of what /v1/responses answers, for the OpenAPI document; tests check real answers against them.

import { z } from 'zod';
import { schemaValid } from '../openai/schemas/answers.ts';

const statuses = ['in_progress', 'completed', 'incomplete'] as const;
const status = z.enum(statuses);
const textPart = z.looseObject({ type: z.string(), text: z.string().optional() });

const messageSchema = z.strictObject({
  id: z.string(),
  type: z.literal('message'),
  status,
  role: z.string(),
  content: z.array(textPart),
});
const callSchema = z.strictObject({
  id: z.string(),
  type: z.literal('function_call'),
  status,
  call_id: z.string(),
  name: z.string(),
  namespace: z.string().optional(),
  arguments: z.string().meta({ description: 'JSON text.' }),
});
const customCallSchema = z.strictObject({
  id: z.string(),
  type: z.literal('custom_tool_call'),
  status,
  call_id: z.string(),
  name: z.string(),
  namespace: z.string().optional(),
  input: z.string(),
});
const callOutputSchema = z.strictObject({
  id: z.string(),
  type: z.enum(['function_call_output', 'custom_tool_call_output']),
  status,
  call_id: z.string(),
  output: z.array(textPart),
});
const reasoningSchema = z.strictObject({
  id: z.string(),
  type: z.literal('reasoning'),
  status,
  summary: z.array(textPart),
  content: z.array(textPart),
});

export const responseSchema = z.looseObject({
  id: z.string(),
  object: z.literal('response'),
  created_at: z.int(),
  completed_at: z.int().optional(),
  status: z.enum(['queued', ...statuses, 'failed', 'cancelled']),
  error: z.strictObject({ code: z.string(), message: z.string() }).nullable(),
  incomplete_details: z.strictObject({ reason: z.literal('max_output_tokens') }).nullable(),
  model: z.string(),
  output: z.array(
    z.discriminatedUnion('type', [messageSchema, callSchema, customCallSchema, reasoningSchema]),
  ),
  previous_response_id: z.string().nullable(),
  schema_valid: schemaValid,
  store: z.boolean().meta({ description: 'Whether it was kept.' }),
  usage: z
    .strictObject({
      input_tokens: z.int(),
      input_tokens_details: z.strictObject({ cached_tokens: z.int(), cache_write_tokens: z.literal(0) }),
      output_tokens: z.int(),
      output_tokens_details: z.strictObject({ reasoning_tokens: z.int() }),
      total_tokens: z.int(),
    })
    .nullable(),
});

export const responseEventSchema = z.looseObject({ type: z.string(), sequence_number: z.int() });

export const inputItemsSchema = z.strictObject({
  object: z.literal('list'),
  data: z.array(
    z.discriminatedUnion('type', [
      messageSchema,
      callSchema,
      customCallSchema,
      callOutputSchema,
      reasoningSchema,
    ]),
  ),
  first_id: z.string().nullable(),
  last_id: z.string().nullable(),
  has_more: z.boolean(),
});

export const deletedSchema = z.strictObject({
  id: z.string(),
  object: z.literal('response'),
  deleted: z.literal(true),
});

export const inputTokensSchema = z.strictObject({
  object: z.literal('response.input_tokens'),
  input_tokens: z.int(),
});
