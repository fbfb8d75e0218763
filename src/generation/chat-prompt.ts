// Renders messages with the model's chat template, after checking their number and size and flattening content parts.

import type { ServedModel } from '../pool/served-model.ts';
import { ChatTemplateError } from '../text/chat-template.ts';
import { GenerationError, invalid } from './generation-error.ts';
import { describeTools, type WireTool, withCallsAsText } from './tools.ts';

export interface TextLimits {
  readonly maxMessages: number;
  /** Of one text: a message's content or a prompt. In UTF-16 units. */
  readonly maxTextCharacters: number;
}

export interface Conversation {
  readonly messages: readonly ChatMessage[];
  readonly tools?: readonly WireTool[] | undefined;
  /**
   * Whether the prompt ends where the assistant's answer begins. Default true, unless the last message is continued.
   */
  readonly addGenerationPrompt?: boolean | undefined;
  /** Whether the answer continues the last message, the assistant's. Default false. */
  readonly continueFinalMessage?: boolean | undefined;
  readonly variables?: Readonly<Record<string, unknown>> | undefined;
  /** Templates see parts of type `image_url`, in order, as places of images that are read elsewhere. Default false. */
  readonly images?: boolean | undefined;
}

export function chatPrompt(
  { name, template }: Pick<ServedModel, 'name' | 'template'>,
  conversation: Conversation,
  limits?: TextLimits,
  now?: Date,
): string {
  const { messages, tools = [], continueFinalMessage = false, variables } = conversation;
  const { addGenerationPrompt = !continueFinalMessage } = conversation;
  if (template === undefined) {
    throw new GenerationError('no_chat_template', `the model '${name}' has no chat template`, 'model');
  }
  if (limits !== undefined && messages.length > limits.maxMessages) {
    throw invalid('messages', `${messages.length} are too many; ${limits.maxMessages} are possible`);
  }
  if (continueFinalMessage) checkContinuation(messages, addGenerationPrompt);
  const given = messages.map((message, at) =>
    conversation.images && showsImage(message)
      ? seenMessage(message, at, limits)
      : plainMessage(message, at, limits),
  );
  const { rendersTools } = template.format;
  const written = template.rendersCalls ? given : given.map(withCallsAsText);
  const described = rendersTools ? written : describeTools(written, tools);
  const plain = conversation.images && template.wantsParts ? described.map(withParts) : described;
  try {
    return template.render({
      messages: plain,
      tools: rendersTools ? tools : [],
      addGenerationPrompt,
      continueFinalMessage,
      variables,
      now,
    });
  } catch (error) {
    if (error instanceof ChatTemplateError) throw invalid('messages', error.message);
    throw error;
  }
}

function checkContinuation(messages: readonly ChatMessage[], addGenerationPrompt: boolean): void {
  const parameter = 'continue_final_message';
  if (addGenerationPrompt) {
    throw invalid(parameter, 'contradicts add_generation_prompt: an answer either goes on or begins anew');
  }
  if (messages.at(-1)?.role !== 'assistant')
    throw invalid(parameter, "the last message is not the assistant's");
}

export function checkText(parameter: string, text: string, limits: TextLimits | undefined): void {
  if (limits === undefined || text.length <= limits.maxTextCharacters) return;
  const problem = `${text.length} characters are too many; ${limits.maxTextCharacters} are possible`;
  throw invalid(parameter, problem, 'string_above_max_length');
}

/** As templates expect it: content is one text, arguments of tool calls are objects. */
function plainMessage(
  message: ChatMessage,
  at: number,
  limits: TextLimits | undefined,
): Record<string, unknown> {
  const { role, content, refusal, tool_calls: calls, ...rest } = message;
  const parameter = `messages[${at}].content`;
  const text = contentText(content, parameter) ?? (role === 'assistant' ? (refusal ?? undefined) : undefined);
  if (text === undefined && !(role === 'assistant' && calls)) {
    throw invalid(parameter, 'is missing', 'missing_required_parameter');
  }
  checkText(parameter, text ?? '', limits);
  return {
    ...withoutNulls(rest),
    // Open models have no developer role.
    role: role === 'developer' ? 'system' : role,
    content: text ?? '',
    ...(calls?.length ? { tool_calls: calls.map(withParsedArguments) } : {}),
  };
}

/** Clients write null for absent fields; templates test whether a field exists. */
function withoutNulls(fields: object): Record<string, unknown> {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== null));
}

function showsImage({ content }: ChatMessage): boolean {
  return Array.isArray(content) && content.some(({ type }) => type === 'image_url');
}

/** As templates expect it: parts stay apart, and an image is one of them. */
function seenMessage(
  message: ChatMessage,
  at: number,
  limits: TextLimits | undefined,
): Record<string, unknown> {
  const parts = Array.isArray(message.content) ? message.content : [];
  const content = parts.map((part: ContentPart, index) => {
    const where = `messages[${at}].content[${index}]`;
    if (part.type === 'image_url') return { type: 'image' };
    const text = partText(part, where);
    checkText(where, text, limits);
    return { type: 'text', text };
  });
  return { ...plainMessage({ ...message, content: '' }, at, undefined), content };
}

/** Some templates of models that read images take no text alone. */
function withParts(message: Record<string, unknown>): Record<string, unknown> {
  const { content } = message;
  return typeof content === 'string' ? { ...message, content: [{ type: 'text', text: content }] } : message;
}

function contentText(content: ChatMessage['content'], parameter: string): string | undefined {
  if (content === undefined || content === null) return undefined;
  if (typeof content === 'string') return content;
  const texts = content.map((part, index) => partText(part, `${parameter}[${index}]`));
  // As most servers do: words of two parts must not run together.
  return texts.join('\n');
}

function partText({ type, text, refusal }: ContentPart, where: string): string {
  if (type === 'text' && text !== undefined) return text;
  if (type === 'refusal' && refusal !== undefined) return refusal;
  const problem =
    type === 'text' || type === 'refusal'
      ? `has no ${type}`
      : `content of type '${type.slice(0, 40)}' is not supported; only text is`;
  throw invalid(where, problem);
}

/** On the wire arguments are JSON in a string; templates serialize them. */
function withParsedArguments(call: Readonly<Record<string, unknown>>): Record<string, unknown> {
  const called = call.function;
  if (typeof called !== 'object' || called === null || !('arguments' in called)) return call;
  if (typeof called.arguments !== 'string') return call;
  try {
    return { ...call, function: { ...called, arguments: JSON.parse(called.arguments) } };
  } catch {
    return call;
  }
}

export const messageRoles = ['system', 'developer', 'user', 'assistant', 'tool'] as const;

/** On a part whose place in the client's request is another than its place here. */
export const placeInRequest = Symbol('place in the request');

export interface ContentPart {
  readonly type: string;
  readonly text?: string | undefined;
  readonly refusal?: string | undefined;
  readonly image_url?: string | { readonly url?: unknown; readonly detail?: unknown } | undefined;
  /** In programs: the bytes of a file, where the type is `image`. */
  readonly image?: Uint8Array | undefined;
  readonly [placeInRequest]?: string;
}

export interface ChatMessage {
  readonly role: (typeof messageRoles)[number];
  readonly content?: string | readonly ContentPart[] | null | undefined;
  readonly refusal?: string | null | undefined;
  readonly name?: string | null | undefined;
  readonly tool_calls?: readonly Readonly<Record<string, unknown>>[] | null | undefined;
  readonly tool_call_id?: string | null | undefined;
}

/** Checks messages of a program or a file. `chatPrompt` checks content parts. */
export function checkMessages(value: unknown): readonly ChatMessage[] {
  if (!Array.isArray(value)) throw wrongType('messages', 'must be a list of messages');
  if (value.length === 0) throw invalid('messages', 'at least one message is needed');
  for (const [at, message] of value.entries()) checkMessage(message, `messages[${at}]`);
  return value as ChatMessage[];
}

function checkMessage(message: unknown, where: string): void {
  if (!isObject(message)) throw wrongType(where, 'must be an object with role and content');
  const { role, content, refusal, name, tool_calls: calls, tool_call_id: callId } = message;
  if (!messageRoles.some((one) => one === role)) {
    throw invalid(`${where}.role`, `must be one of ${messageRoles.join(', ')}`);
  }
  if (!isAbsent(content) && typeof content !== 'string' && !isListOf(content, isContentPart)) {
    throw wrongType(`${where}.content`, 'must be a text or a list of content parts');
  }
  if (!isAbsent(calls) && !isListOf(calls, isObject)) {
    throw wrongType(`${where}.tool_calls`, 'must be a list of objects');
  }
  for (const [field, given] of Object.entries({ refusal, name, tool_call_id: callId })) {
    if (!isAbsent(given) && typeof given !== 'string') {
      throw wrongType(`${where}.${field}`, 'must be a text');
    }
  }
}

function isContentPart(value: unknown): boolean {
  if (!isObject(value) || typeof value.type !== 'string') return false;
  return [value.text, value.refusal].every((text) => text === undefined || typeof text === 'string');
}

function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function isListOf(value: unknown, isOne: (one: unknown) => boolean): boolean {
  return Array.isArray(value) && value.every(isOne);
}

function isAbsent(value: unknown): boolean {
  return value === undefined || value === null;
}

function wrongType(where: string, problem: string): GenerationError {
  return invalid(where, problem, 'invalid_type');
}
