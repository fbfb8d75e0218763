// Converts the body of a response to one of chat completions.

import type { ChatBody } from '../openai/schemas/chat.ts';
import type { Conversation } from './conversation.ts';
import { toMessages } from './messages.ts';
import type { ResponsesBody } from './schema.ts';
import { toChatChoice, toChatTools } from './tools.ts';

const LOGPROBS = 'message.output_text.logprobs';

export function toChatBody(given: ResponsesBody, { history, given: items }: Conversation): ChatBody {
  const {
    input: _input,
    instructions,
    previous_response_id: _previous,
    store: _store,
    background: _background,
    max_output_tokens: maxTokens,
    tools,
    tool_choice: choice,
    text,
    reasoning,
    include,
    top_logprobs: top,
    metadata: _metadata,
    user: _user,
    safety_identifier: _safety,
    prompt_cache_key: _cacheKey,
    max_tool_calls: _maxCalls,
    truncation: _truncation,
    ...shared
  } = given;
  const logprobs = include?.includes(LOGPROBS) === true || (top ?? 0) > 0;
  return {
    ...shared,
    messages: toMessages([...history, ...items], instructions),
    continue_final_message: false,
    max_completion_tokens: maxTokens,
    tools: tools && toChatTools(tools),
    tool_choice: toChatChoice(choice, tools),
    response_format: toFormat(text?.format ?? undefined),
    reasoning_effort: reasoning?.effort ?? undefined,
    ...(logprobs ? { logprobs, top_logprobs: top ?? 0 } : {}),
  };
}

type Format = NonNullable<NonNullable<ResponsesBody['text']>['format']>;

function toFormat(format: Format | undefined): ChatBody['response_format'] {
  if (format?.type !== 'json_schema') return format;
  const { type, ...schema } = format;
  return { type, json_schema: schema };
}
