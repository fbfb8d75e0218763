// The body of /v1/responses.

import { z } from 'zod';
import type { BodyRules } from '../http/parse-body.ts';
import { chatSchema } from '../openai/schemas/chat.ts';
import { samplingFields, sharedRefusals } from '../openai/schemas/sampling.ts';
import { toolFields } from '../openai/schemas/tools.ts';
import { inputSchema, unknownType } from './items.ts';
import { toolChoiceSchema, toolsSchema } from './tools.ts';

const MAX_METADATA = 16;

const includable = [
  'message.output_text.logprobs',
  // Reasoning is not encrypted, so that it can be sent back as it is.
  'reasoning.encrypted_content',
  // They belong to tools that are left out and inputs that are refused: there is nothing to include.
  'file_search_call.results',
  'web_search_call.results',
  'web_search_call.action.sources',
  'message.input_image.image_url',
  'computer_call_output.output.image_url',
  'code_interpreter_call.outputs',
] as const;

const format = z.discriminatedUnion(
  'type',
  [
    z.object({ type: z.literal('text') }),
    z.object({ type: z.literal('json_object') }),
    z.object({
      type: z.literal('json_schema'),
      name: z.string().regex(/^[\w-]{1,64}$/, 'must be 1 to 64 letters, digits, _ or -'),
      schema: z.record(z.string(), z.unknown()),
      description: z.string().nullish(),
      strict: z.boolean().nullish(),
    }),
  ],
  { error: unknownType('formats', 'these are: text, json_object, json_schema') },
);

const text = z.strictObject({
  format: format.nullish(),
  verbosity: z.literal('medium', 'low and high are not supported: models here know nothing of it').nullish(),
});

const reasoning = z.strictObject({
  effort: chatSchema.shape.reasoning_effort.nullable(),
  summary: z
    .literal('auto', 'summaries are not made: the reasoning itself is given; leave it out, or say auto')
    .nullish(),
});

const metadata = z
  .record(z.string().max(64), z.string().max(512))
  .refine((pairs) => Object.keys(pairs).length <= MAX_METADATA, `has more than ${MAX_METADATA} entries`);

// These parameters have other names here, or do not exist.
const {
  n: _n,
  max_tokens,
  stream_options: _options,
  skip_special_tokens: _skip,
  ...sampling
} = samplingFields;

export const responsesSchema = z.object({
  input: inputSchema.optional(),
  instructions: z
    .string()
    .meta({ description: 'Stands before the conversation; not carried over.' })
    .optional(),
  previous_response_id: z
    .string()
    .meta({ description: 'A stored response, whose conversation goes on.' })
    .optional(),
  store: z.boolean().meta({ description: 'Keep the response, to come back to it. Default true.' }).optional(),
  background: z
    .boolean()
    .meta({
      description: 'Answered at once, as queued; computed by itself, also after a restart. Default false.',
    })
    .optional(),
  ...sampling,
  max_output_tokens: max_tokens,
  tools: toolsSchema.optional(),
  tool_choice: toolChoiceSchema.optional(),
  parallel_tool_calls: toolFields.parallel_tool_calls,
  truncation: z
    .enum(['auto', 'disabled'])
    .meta({ description: 'auto: what is too long loses its oldest messages. Default disabled.' })
    .optional(),
  text: text.optional(),
  reasoning: reasoning.optional(),
  include: z.array(z.enum(includable)).optional(),
  top_logprobs: chatSchema.shape.top_logprobs,
  metadata: metadata.optional(),
  user: z.string().optional(),
  safety_identifier: z.string().optional(),
  prompt_cache_key: z.string().optional(),
  max_tool_calls: z.int().optional(),
  chat_template_kwargs: chatSchema.shape.chat_template_kwargs,
});

export type ResponsesBody = z.infer<typeof responsesSchema>;

const elsewhere = (name: string) => () => `is called ${name} here`;
const notSupported = () => 'is not supported';

export const responsesRules: BodyRules<typeof responsesSchema> = {
  schema: responsesSchema,
  // Without built-in tools there is nothing for max_tool_calls to count; keys alone have tiers.
  noOps: [
    'service_tier',
    'prompt_cache_retention',
    'prompt_cache_options',
    'stream_options',
    'client_metadata',
  ],
  refused: {
    ...sharedRefusals,
    conversation: () => 'is not supported; give previous_response_id instead',
    prompt: () => 'stored prompts are not supported; give instructions and input',
    context_management: (value) =>
      Array.isArray(value) && value.length === 0 ? undefined : 'is not supported',
    moderation: notSupported,
    n: (value) => (value === 1 ? undefined : 'a response is one answer'),
    messages: elsewhere('input'),
    max_tokens: elsewhere('max_output_tokens'),
    max_completion_tokens: elsewhere('max_output_tokens'),
    response_format: elsewhere('text.format'),
    reasoning_effort: elsewhere('reasoning.effort'),
    verbosity: elsewhere('text.verbosity'),
    logprobs: () => 'give include with message.output_text.logprobs instead',
    skip_special_tokens: (value) => (value === true ? undefined : 'is not supported'),
  },
};
