// The body of /v1/messages, as Anthropic's clients write it: what is served, what has no effect here, and what is refused.

import { z } from 'zod';
import type { BodyRules } from '../http/parse-body.ts';
import { templateFields } from '../openai/schemas/chat.ts';
import { MAX_STOPS, samplingFields, stopString } from '../openai/schemas/sampling.ts';
import { MAX_TOOLS, toolName } from '../openai/schemas/tools.ts';
import { contextManagement } from './context-edits.ts';

const textBlock = z.looseObject({ type: z.literal('text'), text: z.string() });

const thinkingBlock = z.looseObject({
  type: z.literal('thinking'),
  thinking: z.string(),
  signature: z.string().nullish(),
});

const redactedBlock = z.looseObject({ type: z.literal('redacted_thinking') });

const toolUseBlock = z.looseObject({
  type: z.literal('tool_use'),
  id: z.string().min(1),
  name: z.string().min(1),
  input: z.record(z.string(), z.unknown()),
});

const searchResultBlock = z.looseObject({
  type: z.literal('search_result'),
  source: z.string(),
  title: z.string(),
  content: z.array(textBlock),
});

const documentBlock = z.looseObject({
  type: z.literal('document'),
  source: z.discriminatedUnion(
    'type',
    [
      z.looseObject({ type: z.literal('text'), data: z.string() }),
      z.looseObject({ type: z.literal('content'), content: contentOf([textBlock]) }),
    ],
    'only documents of type text or content are read here',
  ),
  title: z.string().nullish(),
  context: z.string().nullish(),
});

const imageBlock = z.looseObject({
  type: z.literal('image'),
  source: z.discriminatedUnion(
    'type',
    [
      z.looseObject({
        type: z.literal('base64'),
        data: z.string(),
        media_type: z
          .enum(['image/png', 'image/jpeg', 'image/webp', 'image/gif'], {
            error: 'must be image/png, image/jpeg, image/webp or image/gif',
          })
          .optional(),
      }),
      z.looseObject({ type: z.literal('url'), url: z.string() }),
      z.looseObject({ type: z.literal('file'), file_id: z.string() }),
    ],
    'must be of type base64, url or file',
  ),
});

const toolReferenceBlock = z.looseObject({ type: z.literal('tool_reference'), tool_name: z.string() });

const toolResultBlock = z.looseObject({
  type: z.literal('tool_result'),
  tool_use_id: z.string().min(1),
  content: contentOf([textBlock, imageBlock, searchResultBlock, documentBlock, toolReferenceBlock]).nullish(),
  is_error: z.boolean().nullish(),
});

type Block = z.ZodObject<{ type: z.ZodLiteral<string> }>;

function contentOf<const Blocks extends readonly [Block, ...Block[]]>(blocks: Blocks) {
  const types = blocks.map(({ shape }) => shape.type.value).join(', ');
  const error = ({ input }: { readonly input?: unknown }) => {
    const type = (input as { readonly type?: unknown } | null)?.type;
    return typeof type === 'string'
      ? `content of type '${type.slice(0, 40)}' is not supported; here it may be ${types}`
      : `must be an object whose type is one of ${types}`;
  };
  return z
    .preprocess(
      (given) => (typeof given === 'string' ? [{ type: 'text', text: given }] : given),
      z.array(z.discriminatedUnion('type', blocks, { error }), 'must be a text or a list of blocks'),
    )
    .meta({
      description: `A text, or blocks of type ${types}.`,
      anyOf: [{ type: 'string' }, { type: 'array', items: { type: 'object' } }],
    });
}

const message = z.discriminatedUnion(
  'role',
  [
    z.looseObject({
      role: z.literal('user'),
      content: contentOf([textBlock, imageBlock, searchResultBlock, documentBlock, toolResultBlock]),
    }),
    z.looseObject({
      role: z.literal('assistant'),
      content: contentOf([textBlock, toolUseBlock, thinkingBlock, redactedBlock]),
    }),
    z.looseObject({ role: z.literal('system'), content: contentOf([textBlock]) }),
  ],
  'must be user, assistant or system',
);

export type Message = z.infer<typeof message>;
export type ResultBlock = NonNullable<z.infer<typeof toolResultBlock>['content']>[number];
export type ImageBlock = z.infer<typeof imageBlock>;
export type UserBlock = Extract<Message, { role: 'user' }>['content'][number];
export type AssistantBlock = Extract<Message, { role: 'assistant' }>['content'][number];

const tool = z.looseObject({
  type: z
    .literal('custom', {
      error: ({ input }) =>
        `tools of type '${String(input).slice(0, 40)}' are not served here; give your own, with an input_schema`,
    })
    .nullish(),
  name: toolName,
  description: z.string().nullish(),
  input_schema: z.looseObject({ type: z.literal('object') }).meta({ description: 'A JSON schema.' }),
  strict: z.boolean().nullish(),
  defer_loading: z
    .boolean()
    .nullish()
    .meta({ description: 'Offered to the model once a tool_reference names it.' }),
  input_examples: z
    .array(z.record(z.string(), z.unknown()))
    .nullish()
    .meta({ description: 'Shown to the model with the description.' }),
  allowed_callers: z
    .array(z.string())
    .refine((callers) => callers.includes('direct'), 'the only caller is direct')
    .nullish(),
});

const parallel = { disable_parallel_tool_use: z.boolean().nullish() };
const toolChoice = z.discriminatedUnion(
  'type',
  [
    z.object({ type: z.literal('auto'), ...parallel }),
    z.object({ type: z.literal('any'), ...parallel }),
    z.object({ type: z.literal('tool'), name: z.string(), ...parallel }),
    z.object({ type: z.literal('none') }),
  ],
  'must be auto, any, tool or none',
);

const display = { display: z.enum(['summarized', 'omitted']).nullish() };
const thinking = z.discriminatedUnion(
  'type',
  [
    z.object({ type: z.literal('enabled'), budget_tokens: z.int().min(1), ...display }),
    z.object({ type: z.literal('adaptive'), ...display }),
    z.object({ type: z.literal('disabled') }),
  ],
  'must be enabled, adaptive or disabled',
);

const jsonFormat = z.strictObject({
  type: z.literal('json_schema', 'the only type is json_schema'),
  schema: z.record(z.string(), z.unknown()),
});

/** Sampling parameters, by the server's own names where Anthropic has none. */
const { n, stream_options, stop, max_tokens, ...sampling } = samplingFields;

const fields = {
  messages: z.array(message).min(1, 'at least one message is needed'),
  system: contentOf([textBlock]).optional(),
  ...sampling,
  stop_sequences: z
    .array(stopString)
    .max(MAX_STOPS)
    .meta({ description: `Up to ${MAX_STOPS} texts that end the answer and are not shown.` })
    .optional(),
  tools: z.array(tool).max(MAX_TOOLS).meta({ description: 'Functions that the model may call.' }).optional(),
  tool_choice: toolChoice.meta({ description: 'Whether a tool is called. Default auto.' }).optional(),
  thinking: thinking
    .meta({ description: "Whether the model reasons, where its template knows of it. Default: the model's." })
    .optional(),
  output_config: z
    .strictObject({
      effort: z.enum(['low', 'medium', 'high', 'xhigh', 'max']).nullish(),
      format: jsonFormat.nullish(),
    })
    .meta({ description: 'How long the model reasons, and a JSON schema of the answer.' })
    .optional(),
  output_format: jsonFormat.meta({ description: 'The older name of output_config.format.' }).optional(),
  context_management: contextManagement.optional(),
  chat_template_kwargs: templateFields.chat_template_kwargs,
};

export const messagesSchema = z.object({
  max_tokens: z
    .int()
    .min(1)
    .meta({ description: samplingFields.max_tokens.meta()?.description ?? '' }),
  ...fields,
});

/** Nothing is generated, so that max_tokens is not needed. */
export const countSchema = z.object({ max_tokens: messagesSchema.shape.max_tokens.optional(), ...fields });

export type MessagesRequest = z.infer<typeof countSchema>;

const shared = {
  noOps: [
    'metadata',
    'service_tier',
    'cache_control',
    'inference_geo',
    'speed',
    'diagnostics',
    'betas',
    'user_profile_id',
    'workspace_id',
  ],
  refused: {
    container: () => 'there are no containers here',
    mcp_servers: (value: unknown) =>
      Array.isArray(value) && value.length === 0 ? undefined : 'is not supported; give tools instead',
    compaction: () =>
      'conversations are not summarized here; context_management can clear old results of tools',
    thread: () => 'conversations are not kept here; send all messages',
    fallbacks: () => 'is not supported; the model answers or there is an error',
  },
};

export const messagesRules: BodyRules<typeof messagesSchema> = { schema: messagesSchema, ...shared };
export const countRules: BodyRules<typeof countSchema> = { schema: countSchema, ...shared };
