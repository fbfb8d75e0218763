// The items a conversation consists of: as clients give them, and as they are kept and shown.

import { randomBytes } from 'node:crypto';
import { z } from 'zod';
import type { placeInRequest } from '../../generation/chat-prompt.ts';

const MAX_ID_LETTERS = 128;

const id = z.string().min(1).max(MAX_ID_LETTERS).nullish();
const status = z.enum(['in_progress', 'completed', 'incomplete']).nullish();

/** The error message of a discriminated union for a type that it does not know. */
export function unknownType(things: string, hint: string) {
  return ({ code, input }: { readonly code?: string; readonly input?: unknown }): string | undefined => {
    const type = (input as { readonly type?: unknown } | undefined)?.type;
    if (code !== 'invalid_union' || typeof type !== 'string') return undefined;
    return `${things} of type '${type.slice(0, 40)}' are not supported; ${hint}`;
  };
}

const textPart = z.discriminatedUnion(
  'type',
  [
    z.object({ type: z.literal('input_text'), text: z.string() }),
    z.object({ type: z.literal('output_text'), text: z.string() }),
    z.object({ type: z.literal('refusal'), refusal: z.string() }),
    z.object({
      type: z.literal('input_image'),
      image_url: z.union([z.string(), z.object({ url: z.string(), detail: z.string().nullish() })]).nullish(),
      file_id: z.string().nullish(),
      detail: z.enum(['low', 'high', 'auto', 'original']).nullish(),
    }),
    z.object({
      type: z.literal('input_file'),
      file_id: z.string().nullish(),
      file_data: z.string().nullish(),
      file_url: z.string().nullish(),
      filename: z.string().nullish(),
    }),
  ],
  { error: unknownType('parts', 'only text, images and files of text are') },
);

const content = z
  .preprocess(
    (given) => (typeof given === 'string' ? [{ type: 'input_text', text: given }] : given),
    z.array(textPart),
  )
  .meta({ type: ['string', 'array'] });

const message = z.object({
  type: z.literal('message'),
  role: z.enum(['user', 'assistant', 'system', 'developer']),
  content,
  id,
  status,
});
const call = z.object({
  type: z.literal('function_call'),
  call_id: z.string().min(1).max(MAX_ID_LETTERS),
  name: z.string().min(1),
  namespace: z.string().min(1).nullish(),
  arguments: z.string(),
  id,
  status,
});
const customCall = z.object({
  type: z.literal('custom_tool_call'),
  call_id: z.string().min(1).max(MAX_ID_LETTERS),
  name: z.string().min(1),
  namespace: z.string().min(1).nullish(),
  input: z.string(),
  id,
  status,
});
const callOutput = z.object({
  type: z.literal('function_call_output'),
  call_id: z.string().min(1).max(MAX_ID_LETTERS),
  output: content,
  id,
  status,
});
const customOutput = callOutput.extend({ type: z.literal('custom_tool_call_output') });
const reasoning = z.object({
  type: z.literal('reasoning'),
  summary: z.array(z.object({ type: z.literal('summary_text'), text: z.string() })).nullish(),
  content: z.array(z.object({ type: z.literal('reasoning_text'), text: z.string() })).nullish(),
  encrypted_content: z.string().nullish(),
  id,
  status,
});
const reference = z.object({
  type: z.literal('item_reference'),
  id: z.string().min(1).max(MAX_ID_LETTERS),
});

const item = z.preprocess(
  withType,
  z.discriminatedUnion('type', [message, call, callOutput, customCall, customOutput, reasoning, reference], {
    error: unknownType(
      'items',
      'these are: message, function_call, function_call_output, custom_tool_call, custom_tool_call_output, reasoning, item_reference',
    ),
  }),
);

export const inputSchema = z
  .preprocess(
    (given) => (typeof given === 'string' ? [{ type: 'message', role: 'user', content: given }] : given),
    z.array(item),
  )
  .meta({ type: ['string', 'array'], description: 'A text, or the items of a conversation.' });

/** The type may be left out where the other fields imply it. */
function withType(given: unknown): unknown {
  if (typeof given !== 'object' || given === null) return given;
  const { type } = given as { readonly type?: unknown };
  if (type !== undefined && type !== null) return given;
  if ('role' in given) return { ...given, type: 'message' };
  return 'id' in given ? { ...given, type: 'item_reference' } : given;
}

export type GivenItem = z.infer<typeof item>;
export type GivenPart = z.infer<typeof textPart>;
export type ItemReference = z.infer<typeof reference>;

export type ItemStatus = 'in_progress' | 'completed' | 'incomplete';

export type TextPart =
  | { readonly type: 'input_text'; readonly text: string }
  | {
      readonly type: 'output_text';
      readonly text: string;
      readonly annotations: readonly never[];
      readonly logprobs: readonly object[];
    }
  | { readonly type: 'refusal'; readonly refusal: string }
  | InputImage;

/** With the image itself, or its URL: conversations go on though files are deleted. */
export interface InputImage {
  readonly type: 'input_image';
  readonly image_url: string;
  readonly detail?: string;
  readonly [placeInRequest]?: string;
}

interface Common {
  readonly id: string;
  readonly status: ItemStatus;
}

interface MessageItem extends Common {
  readonly type: 'message';
  readonly role: 'user' | 'assistant' | 'system' | 'developer';
  readonly content: readonly TextPart[];
}

interface Called extends Common {
  readonly call_id: string;
  readonly name: string;
  readonly namespace?: string;
}

interface CallItem extends Called {
  readonly type: 'function_call';
  readonly arguments: string;
}

interface CustomCallItem extends Called {
  readonly type: 'custom_tool_call';
  readonly input: string;
}

interface CallOutputItem extends Common {
  readonly type: 'function_call_output' | 'custom_tool_call_output';
  readonly call_id: string;
  readonly output: string | readonly TextPart[];
}

export interface ReasoningItem extends Common {
  readonly type: 'reasoning';
  readonly summary: readonly { readonly type: 'summary_text'; readonly text: string }[];
  readonly content: readonly { readonly type: 'reasoning_text'; readonly text: string }[];
}

export type OutputItem = MessageItem | CallItem | CustomCallItem | ReasoningItem;
export type ConversationItem = OutputItem | CallOutputItem;

/** Without images. */
export function textOf(parts: string | readonly TextPart[]): string {
  if (typeof parts === 'string') return parts;
  return parts.map(partText).join('');
}

function partText(part: TextPart): string {
  if (part.type === 'input_image') return '';
  return part.type === 'refusal' ? part.refusal : part.text;
}

const marks: Readonly<Record<ConversationItem['type'], string>> = {
  message: 'msg_',
  function_call: 'fc_',
  function_call_output: 'fco_',
  custom_tool_call: 'ctc_',
  custom_tool_call_output: 'ctco_',
  reasoning: 'rs_',
};

export function newItemId(type: ConversationItem['type'], letters = randomBytes(16).toString('hex')): string {
  return marks[type] + letters;
}
