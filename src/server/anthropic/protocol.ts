// Anthropic's Messages as a protocol of this server.

import type { CompletionKind, Protocol } from '../jobs/protocol.ts';
import { chatKind } from '../openai/chat.ts';
import { editContext } from './context-edits.ts';
import { withImageFiles } from './image-files.ts';
import { type MessagesBody, readMessages } from './read.ts';
import { messagesRules } from './schema.ts';
import { messageEvents, messageShape } from './shape.ts';
import { citationWarnings } from './sources.ts';
import { omitsThinking } from './thinking.ts';

export const messagesKind: CompletionKind<MessagesBody> = {
  ...chatKind,
  responseFormat(body) {
    const format = chatKind.responseFormat(body);
    const names = { responseFormat: body.formatName, tools: 'tools' };
    return format && { ...format, thinkingHint: body.thinkingBudget, names };
  },
};

export const messagesProtocol: Protocol<typeof messagesRules.schema, MessagesBody> = {
  idMark: 'msg_',
  rules: messagesRules,
  kind: messagesKind,
  read: async (given, incoming) => readMessages(await withImageFiles(given, incoming), incoming),
  check: ({ messages }) => citationWarnings(messages),
  async edit({ context_management: management }, body, { count }) {
    if (!management?.edits) return { body };
    const countOf = (messages: MessagesBody['messages']) => count({ ...body, messages });
    const { messages, report } = await editContext(management.edits, body.messages, countOf);
    return { body: { ...body, messages }, report };
  },
  fieldNames: {
    stop: 'stop_sequences',
    response_format: 'output_config.format',
    reasoning_effort: 'output_config.effort',
    chat_template_kwargs: 'thinking.budget_tokens',
    continue_final_message: 'messages',
  },
  framing: messageEvents,
  resumable: true,
  shape: (options, given, { request }) =>
    messageShape({ ...options, request, omitsThinking: omitsThinking(given) }),
};
