// `functions` and `function_call`, which OpenAI's API had before tools: read as tools, and written back in their own form, in
// which an answer has one call at most.

import { z } from 'zod';
import { badRequest } from '../http/errors.ts';
import type { ChatBody, ChatRequest } from './schemas/chat.ts';

type Message = ChatRequest['messages'][number];

export function isOlder({ functions }: Pick<ChatRequest, 'functions'>): boolean {
  return functions !== undefined && functions.length > 0;
}

export function withTools({ functions, function_call: choice, messages, ...rest }: ChatRequest): ChatBody {
  const body = { ...rest, messages: withToolCalls(messages) };
  if (!isOlder({ functions })) return body;
  if (rest.tools !== undefined && rest.tools.length > 0) {
    throw badRequest('functions', 'is the older form of tools; give one of them');
  }
  return {
    ...body,
    tools: functions?.map((one) => ({ type: 'function', function: one })),
    tool_choice: typeof choice === 'object' ? { type: 'function', function: choice } : choice,
    parallel_tool_calls: false,
  };
}

const functionCall = z.looseObject({ name: z.string(), arguments: z.string() });

/** Calls and results of earlier turns: a result belongs to the call before it. */
function withToolCalls(messages: readonly Message[]): ChatBody['messages'] {
  let calls = 0;
  return messages.map((message, at): ChatBody['messages'][number] => {
    const { role, function_call: given, ...rest } = message;
    if (role === 'function') return { ...rest, role: 'tool', tool_call_id: idOf(Math.max(calls, 1)) };
    if (given === undefined || given === null) return { ...rest, role };
    const call = functionCall.safeParse(given);
    if (!call.success) throw badRequest(`messages[${at}].function_call`, 'must have a name and arguments');
    const { name, arguments: text } = call.data;
    calls += 1;
    return {
      ...rest,
      role,
      tool_calls: [{ id: idOf(calls), type: 'function', function: { name, arguments: text } }],
    };
  });
}

/** Nine letters and digits: some templates take no other ids. */
function idOf(call: number): string {
  return `call${String(call).padStart(5, '0')}`;
}
