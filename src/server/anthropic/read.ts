// Converts a body of /v1/messages to one of OpenAI's chat completions.

import { badRequest } from '../http/errors.ts';
import type { ChatBody } from '../openai/schemas/chat.ts';
import type { RequestContext } from '../request/request-scope.ts';
import { conversationOf } from './conversation.ts';
import type { MessagesRequest } from './schema.ts';
import { referencedTools } from './sources.ts';
import { thinkingVariables } from './thinking.ts';

export interface MessagesBody extends ChatBody {
  readonly formatName: string;
  /** Tokens of `thinking`. */
  readonly thinkingBudget: number | undefined;
}

type Format = NonNullable<MessagesRequest['output_format']>;

export function readMessages(
  given: MessagesRequest,
  { context }: Pick<RequestContext, 'context'>,
): MessagesBody {
  const { system, messages: turns, tools, tool_choice: choice, stop_sequences: stop, ...others } = given;
  const { thinking, output_config: config, output_format: olderFormat, ...sampling } = others;
  const { messages, continues } = conversationOf({ system, messages: turns }, context.settings);
  const { format, formatName } = formatOf(config?.format ?? undefined, olderFormat);
  if (continues) refuseBeginning(thinking, format && formatName);
  return {
    ...sampling,
    messages,
    formatName,
    thinkingBudget: thinking?.type === 'enabled' ? thinking.budget_tokens : undefined,
    stop,
    continue_final_message: continues,
    tools: offeredTools(tools, turns)?.map(chatTool),
    ...toolChoice(choice),
    ...(format === undefined ? {} : { response_format: chatFormat(format) }),
    reasoning_effort: config?.effort === 'max' ? 'xhigh' : (config?.effort ?? undefined),
    chat_template_kwargs: { ...thinkingVariables(thinking), ...given.chat_template_kwargs },
  };
}

/** An answer that continues a message can begin neither with thinking nor with structured output. */
function refuseBeginning(thinking: MessagesRequest['thinking'], formatName: string | undefined): void {
  const problem = "is not possible where the last message is the assistant's, with which the answer goes on";
  if (formatName !== undefined) throw badRequest(formatName, problem);
  if (thinking !== undefined && thinking.type !== 'disabled') throw badRequest('thinking', problem);
}

function formatOf(newer: Format | undefined, older: Format | undefined) {
  if (newer !== undefined && older !== undefined) {
    throw badRequest('output_format', 'is the older name of output_config.format; give one of them');
  }
  return {
    format: newer ?? older,
    formatName: newer === undefined && older !== undefined ? 'output_format' : 'output_config.format',
  };
}

function chatFormat({ schema }: Format): NonNullable<ChatBody['response_format']> {
  return { type: 'json_schema', json_schema: { schema } };
}

type Tool = NonNullable<MessagesRequest['tools']>[number];

/** Those that wait to be searched for are offered once a result of the search has named them. */
function offeredTools(
  tools: readonly Tool[] | undefined,
  messages: MessagesRequest['messages'],
): readonly Tool[] | undefined {
  if (!tools?.some(({ defer_loading: deferred }) => deferred)) return tools;
  const found = referencedTools(messages);
  return tools.filter(({ name, defer_loading: deferred }) => !deferred || found.has(name));
}

function chatTool({ name, description, input_schema: parameters, input_examples: examples, strict }: Tool) {
  const shown = examples?.length
    ? `Examples of its input:\n${examples.map((one) => JSON.stringify(one)).join('\n')}`
    : '';
  const about = [description, shown].filter((text) => text).join('\n\n');
  return {
    type: 'function' as const,
    function: {
      name,
      ...(about === '' ? {} : { description: about }),
      parameters,
      ...(strict ? { strict } : {}),
    },
  };
}

function toolChoice(
  choice: MessagesRequest['tool_choice'],
): Pick<ChatBody, 'tool_choice' | 'parallel_tool_calls'> {
  if (choice === undefined) return {};
  if (choice.type === 'none') return { tool_choice: 'none' };
  const parallel = { parallel_tool_calls: choice.disable_parallel_tool_use !== true };
  switch (choice.type) {
    case 'auto':
      return { tool_choice: 'auto', ...parallel };
    case 'any':
      return { tool_choice: 'required', ...parallel };
    case 'tool':
      return { tool_choice: { type: 'function', function: { name: choice.name } }, ...parallel };
  }
}
