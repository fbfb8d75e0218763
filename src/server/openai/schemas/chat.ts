// The body of /v1/chat/completions.

import { z } from 'zod';
import { type Conversation, messageRoles } from '../../../generation/chat-prompt.ts';
import { badRequest } from '../../http/errors.ts';
import type { BodyRules } from '../../http/parse-body.ts';
import type { ServerSettings } from '../../settings.ts';
import { answerOptions, withPredict } from './request-options.ts';
import {
  maxLogprobs,
  promptLogprobs,
  samplingFields,
  sharedKnownKeys,
  sharedNoOps,
  sharedRefusals,
} from './sampling.ts';
import { structuredOutputFields } from './structured-output.ts';
import { MAX_TOOLS, toolFields, toolSchema } from './tools.ts';

const contentPart = z.looseObject({
  type: z.string(),
  text: z.string().optional(),
  refusal: z.string().optional(),
  image_url: z
    .union(
      [z.string(), z.looseObject({ url: z.string(), detail: z.string().nullish() })],
      'must be a URL, or an object with url',
    )
    .meta({
      description:
        'A data: URL of a PNG, JPEG, WebP or GIF, or a URL of a host that the server fetches from; and detail: low, high or auto.',
    })
    .optional(),
});

const messageFields = {
  role: z.enum(messageRoles),
  content: z
    .union([z.string(), z.array(contentPart)], 'must be a text or a list of content parts')
    .nullish()
    .meta({ description: 'A text, or parts of type "text", "image_url" or "refusal".' }),
  refusal: z.string().nullish().meta({ description: 'What the assistant said in place of content.' }),
  name: z.string().nullish(),
  tool_calls: z.array(z.looseObject({})).nullish().meta({ description: 'Calls of an earlier turn.' }),
  tool_call_id: z.string().nullish(),
};

export const chatMessage = z.looseObject(messageFields);

/** With what the API had before tools. */
const anyMessage = z.looseObject({
  ...messageFields,
  role: z.enum([...messageRoles, 'function']),
  function_call: z.looseObject({}).nullish(),
});

export const templateFields = {
  add_generation_prompt: z
    .boolean()
    .meta({ description: 'End the prompt where the answer begins. Default true.' })
    .optional(),
  continue_final_message: z
    .boolean()
    .meta({
      description:
        "Go on with the last message, which is the assistant's. Default true where it has text and no calls, and add_generation_prompt is not given.",
    })
    .optional(),
  enable_thinking: z
    .boolean()
    .meta({ description: 'The same in chat_template_kwargs, for templates that know of it.' })
    .optional(),
  chat_template_kwargs: z
    .record(z.string(), z.unknown())
    .meta({ description: "Further variables for the model's chat template, such as enable_thinking." })
    .optional(),
  reasoning_effort: z
    .enum(['none', 'minimal', 'low', 'medium', 'high', 'xhigh'])
    .meta({ description: 'How long the model reasons, where its template knows of it.' })
    .optional(),
};

type TemplateBody = z.infer<z.ZodObject<typeof templateFields>> & {
  readonly messages?: readonly z.infer<typeof chatMessage>[] | undefined;
};

export function templateOptions(
  body: TemplateBody,
  settings: Pick<ServerSettings, 'thinking'>,
): Omit<Conversation, 'messages' | 'tools'> {
  const { add_generation_prompt: addGenerationPrompt, continue_final_message: continues } = body;
  return {
    addGenerationPrompt,
    continueFinalMessage: continues ?? (addGenerationPrompt === undefined && isBegun(body.messages?.at(-1))),
    variables: variablesOf(body, settings),
  };
}

/** An answer goes on with an assistant's text at the end, as with Anthropic and llama-server. */
function isBegun({ role, content, tool_calls: calls }: Partial<z.infer<typeof chatMessage>> = {}): boolean {
  return role === 'assistant' && (content ?? '').length > 0 && (calls ?? []).length === 0;
}

/** Variables that are given by name win. */
function variablesOf(
  body: TemplateBody,
  { thinking }: Pick<ServerSettings, 'thinking'>,
): Conversation['variables'] {
  const { reasoning_effort: effort, enable_thinking: thinks, chat_template_kwargs: named } = body;
  // Some templates have only a switch, under either name.
  const isOn = thinks ?? (effort === 'none' ? false : thinking);
  return {
    ...(effort === undefined ? {} : { reasoning_effort: effort }),
    ...(isOn === undefined ? {} : { enable_thinking: isOn, thinking: isOn }),
    ...named,
  };
}

export const chatSchema = z.object({
  thinking_token_budget: z
    .int()
    .min(0)
    .meta({
      description: 'The model reasons for this many tokens at most; then it answers. Default: no limit.',
    })
    .optional(),
  include_reasoning: z
    .boolean()
    .meta({ description: 'Return what the model reasons. Default true.' })
    .optional(),
  verbose: z
    .boolean()
    .meta({ description: 'Return the prompt that the model saw, as `__verbose`. Default false.' })
    .optional(),
  messages: z.array(chatMessage).min(1, 'at least one message is needed'),
  ...templateFields,
  ...samplingFields,
  ...answerOptions,
  ...toolFields,
  ...structuredOutputFields,
  max_completion_tokens: samplingFields.max_tokens,
  logprobs: z
    .boolean()
    .meta({ description: 'Return the log-probability of each token. Default false.' })
    .optional(),
  prediction: z
    .object({
      type: z.literal('content'),
      content: z.union([z.string(), z.array(z.object({ type: z.literal('text'), text: z.string() }))]),
    })
    .nullish()
    .meta({ description: 'What the answer will probably be: it comes sooner, and is the same.' }),
  prompt_logprobs: promptLogprobs,
  top_logprobs: z
    .int()
    .meta({ minimum: 0, maximum: maxLogprobs, description: 'Alternatives to return for each token.' })
    .optional(),
});

export type ChatBody = z.infer<typeof chatSchema>;

/** A chat as clients send it. */
export const chatRequestSchema = chatSchema.extend({
  messages: z.array(anyMessage).min(1, 'at least one message is needed'),
  functions: z
    .array(toolSchema.shape.function)
    .max(MAX_TOOLS)
    .meta({ description: 'The older form of tools.', deprecated: true })
    .optional(),
  function_call: z
    .union(
      [z.enum(['none', 'auto']), z.object({ name: z.string() })],
      'must be none, auto, or name a function',
    )
    .meta({ description: 'The older form of tool_choice.', deprecated: true })
    .optional(),
});

export type ChatRequest = z.infer<typeof chatRequestSchema>;

const onlyText = (value: unknown) => {
  const text = Array.isArray(value) && value.length === 1 && value[0] === 'text';
  return text ? undefined : 'the only modality is text';
};

/** Some templates read more of them than the schema names; clients send back all that an answer had. */
const messageKeys = [
  ...Object.keys(chatMessage.shape),
  ...['reasoning_content', 'reasoning', 'thinking', 'tool_name', 'annotations', 'audio', 'function_call'],
];

export const chatRules: BodyRules<typeof chatRequestSchema> = {
  schema: chatRequestSchema,
  noOps: sharedNoOps,
  knownKeys: {
    ...sharedKnownKeys,
    'messages[]': messageKeys,
    'messages[].content[]': ['type', 'text', 'refusal'],
    'tools[]': ['type', 'function'],
    'tools[].function': ['name', 'description', 'parameters', 'strict'],
  },
  refused: {
    ...sharedRefusals,
    modalities: onlyText,
    audio: () => 'the only modality is text',
    verbosity: (value) =>
      value === 'medium' ? undefined : 'only medium is possible; say in a message how long answers should be',
    web_search_options: () => 'is not supported',
    echo: (value) => (value === false ? undefined : 'is only possible with /v1/completions'),
  },
};

/** Both names mean the same, and must agree where both are given. */
export function chatMaxTokens(body: ChatBody): { readonly name: string; readonly value: number | undefined } {
  return withPredict(body, namedMaxTokens(body));
}

function namedMaxTokens(body: ChatBody): { readonly name: string; readonly value: number | undefined } {
  const { max_tokens: older, max_completion_tokens: newer } = body;
  if (older !== undefined && newer !== undefined && older !== newer) {
    throw badRequest('max_tokens', `${older} contradicts max_completion_tokens, which is ${newer}`);
  }
  return newer === undefined
    ? { name: 'max_tokens', value: older }
    : { name: 'max_completion_tokens', value: newer };
}

export function predictedText({ prediction }: ChatBody): string | undefined {
  if (prediction === undefined || prediction === null) return undefined;
  const { content } = prediction;
  return typeof content === 'string' ? content : content.map(({ text }) => text).join('\n');
}

export function chatLogprobs({ logprobs, top_logprobs: top }: ChatBody): number | undefined {
  if (logprobs === true) return top ?? 0;
  if (top !== undefined && top > 0) throw badRequest('top_logprobs', 'needs logprobs to be true');
  return undefined;
}
