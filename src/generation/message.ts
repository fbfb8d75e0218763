// A message of a conversation, as OpenAI writes it, and what makes one out of an unknown value.

import { type GenerationError, invalid } from './generation-error.ts';

export const messageRoles = ['system', 'developer', 'user', 'assistant', 'tool'] as const;

interface ContentPart {
  readonly type: string;
  readonly text?: string | undefined;
  /** In place of a text, where the assistant refused. */
  readonly refusal?: string | undefined;
}

export interface ChatMessage {
  readonly role: (typeof messageRoles)[number];
  /** A text, or parts of type `text` and `refusal`. */
  readonly content?: string | readonly ContentPart[] | null | undefined;
  /** What the assistant said in place of content. */
  readonly refusal?: string | null | undefined;
  readonly name?: string | null | undefined;
  /** Of an earlier turn. */
  readonly tool_calls?: readonly Readonly<Record<string, unknown>>[] | null | undefined;
  readonly tool_call_id?: string | null | undefined;
}

/** Whatever a program or a file gives as messages. What a content part may hold is the prompt's to judge. */
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
