// Schemas of what /v1/messages answers, for the OpenAPI document; tests check real answers against them.

import { z } from 'zod';
import { schemaValid } from '../openai/schemas/answers.ts';

export const anthropicErrorSchema = z.strictObject({
  type: z.literal('error'),
  error: z.strictObject({
    type: z.string(),
    message: z.string(),
    details: z.strictObject({ error_code: z.string() }).optional(),
  }),
  request_id: z.string(),
});

const usage = {
  input_tokens: z.int().meta({ description: 'Without those that were found in the prefix cache.' }),
  cache_creation_input_tokens: z.int(),
  cache_read_input_tokens: z.int().meta({ description: 'Prompt tokens that needed no compute.' }),
  output_tokens: z.int(),
};

const stop = {
  stop_reason: z.enum(['end_turn', 'max_tokens', 'stop_sequence', 'tool_use']).nullable(),
  stop_sequence: z.string().nullable(),
  schema_valid: schemaValid,
  stop_details: z.null(),
  container: z.null(),
};

const block = z.discriminatedUnion('type', [
  z.strictObject({ type: z.literal('thinking'), thinking: z.string(), signature: z.string() }),
  z.strictObject({ type: z.literal('text'), text: z.string() }),
  z.strictObject({
    type: z.literal('tool_use'),
    id: z.string(),
    name: z.string(),
    input: z.unknown(),
    caller: z.strictObject({ type: z.literal('direct') }),
  }),
]);

const edits = {
  context_management: z
    .strictObject({ applied_edits: z.array(z.looseObject({ type: z.string() })) })
    .meta({ description: 'What of the conversation was cleared, where that was asked for.' })
    .optional(),
};

export const messageAnswerSchema = z.strictObject({
  id: z.string(),
  type: z.literal('message'),
  role: z.literal('assistant'),
  model: z.string(),
  content: z.array(block),
  ...stop,
  ...edits,
  usage: z.strictObject({ ...usage, service_tier: z.literal('standard') }),
});

const index = z.int();

export const messageEventSchema = z.discriminatedUnion('type', [
  z.strictObject({ type: z.literal('message_start'), message: messageAnswerSchema }),
  z.strictObject({ type: z.literal('ping') }),
  z.strictObject({ type: z.literal('content_block_start'), index, content_block: block }),
  z.strictObject({
    type: z.literal('content_block_delta'),
    index,
    delta: z.discriminatedUnion('type', [
      z.strictObject({ type: z.literal('text_delta'), text: z.string() }),
      z.strictObject({ type: z.literal('input_json_delta'), partial_json: z.string() }),
      z.strictObject({ type: z.literal('thinking_delta'), thinking: z.string() }),
      z.strictObject({ type: z.literal('signature_delta'), signature: z.string() }),
    ]),
  }),
  z.strictObject({ type: z.literal('content_block_stop'), index }),
  z.strictObject({
    type: z.literal('message_delta'),
    delta: z.strictObject(stop),
    ...edits,
    usage: z.strictObject(usage),
  }),
  z.strictObject({ type: z.literal('message_stop') }),
  anthropicErrorSchema,
]);

export const tokenCountSchema = z.strictObject({
  input_tokens: z.int(),
  context_management: z.strictObject({ original_input_tokens: z.int() }).optional(),
});

const moment = z.string().meta({ format: 'date-time' });

export const messageBatchSchema = z.strictObject({
  id: z.string(),
  type: z.literal('message_batch'),
  processing_status: z.enum(['in_progress', 'canceling', 'ended']),
  request_counts: z.strictObject({
    processing: z.int(),
    succeeded: z.int(),
    errored: z.int(),
    canceled: z.int(),
    expired: z.int(),
  }),
  created_at: moment,
  expires_at: moment,
  ended_at: moment.nullable(),
  cancel_initiated_at: moment.nullable(),
  archived_at: z.null(),
  results_url: z.string().nullable(),
});

export const messageBatchPageSchema = z.strictObject({
  data: z.array(messageBatchSchema),
  has_more: z.boolean(),
  first_id: z.string().nullable(),
  last_id: z.string().nullable(),
});

export const deletedBatchSchema = z.strictObject({
  id: z.string(),
  type: z.literal('message_batch_deleted'),
});
