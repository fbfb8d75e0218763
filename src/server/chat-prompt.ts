// From messages to the text a model was trained on: checks their number and size, flattens content parts, and
// renders the model's own template.

import type { ServedModel } from '../pool/served-model.ts';
import { ChatTemplateError } from '../text/chat-template.ts';
import { ApiError, badRequest } from './errors.ts';
import type { ChatMessage } from './schemas/chat.ts';
import type { ServerSettings } from './settings.ts';

type TextLimits = Pick<ServerSettings, 'maxMessages' | 'maxTextCharacters'>;

export interface ChatPromptOptions {
  readonly addGenerationPrompt: boolean;
  readonly variables: Readonly<Record<string, unknown>> | undefined;
}

export function chatPrompt(
  { name, template }: ServedModel,
  messages: readonly ChatMessage[],
  options: ChatPromptOptions,
  limits: TextLimits,
): string {
  if (template === undefined) {
    const message = `the model '${name}' has no chat template; use /v1/completions with a whole prompt`;
    throw new ApiError(400, message, { param: 'model', code: 'no_chat_template' });
  }
  if (messages.length > limits.maxMessages) {
    throw badRequest('messages', `${messages.length} are too many; ${limits.maxMessages} are possible`);
  }
  const plain = messages.map((message, at) => plainMessage(message, at, limits.maxTextCharacters));
  try {
    return template.render({ messages: plain, ...options });
  } catch (error) {
    if (error instanceof ChatTemplateError) throw badRequest('messages', error.message);
    throw error;
  }
}

export function checkText(param: string, text: string, maxCharacters: number): void {
  if (text.length <= maxCharacters) return;
  const problem = `${text.length} characters are too many; ${maxCharacters} are possible`;
  throw badRequest(param, problem, 'string_above_max_length');
}

/** As templates expect it: content is one text, arguments of tool calls are objects. */
function plainMessage(message: ChatMessage, at: number, maxCharacters: number): Record<string, unknown> {
  const { role, content, tool_calls: calls, ...rest } = message;
  const param = `messages[${at}].content`;
  const text = contentText(content, param);
  if (text === undefined && !(role === 'assistant' && calls)) {
    throw badRequest(param, 'is missing', 'missing_required_parameter');
  }
  checkText(param, text ?? '', maxCharacters);
  return {
    ...rest,
    // Open models know no developer; its messages are what a system message is to them.
    role: role === 'developer' ? 'system' : role,
    content: text ?? '',
    ...(calls ? { tool_calls: calls.map(withParsedArguments) } : {}),
  };
}

function contentText(content: ChatMessage['content'], param: string): string | undefined {
  if (content === undefined || content === null) return undefined;
  if (typeof content === 'string') return content;
  const texts = content.map(({ type, text }, part) => {
    if (type === 'text' && text !== undefined) return text;
    const problem =
      type === 'text'
        ? 'has no text'
        : `content of type '${type.slice(0, 40)}' is not supported; only text is`;
    throw badRequest(`${param}[${part}]`, problem);
  });
  return texts.join('');
}

/** On the wire arguments are JSON in a string; templates write them as JSON themselves. */
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
