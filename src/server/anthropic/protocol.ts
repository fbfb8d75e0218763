// Anthropic's Messages as a protocol of this server.

import { type CompletionKind, chatKind, type Protocol } from '../jobs/protocol.ts';
import { type MessagesBody, readMessages } from './read.ts';
import { messagesRules } from './schema.ts';
import { messageEvents, messageShape } from './shape.ts';
import { omitsThinking } from './thinking.ts';

export const messagesKind: CompletionKind<MessagesBody> = {
  ...chatKind,
  wish(body) {
    const wish = chatKind.wish(body);
    return wish && { ...wish, names: { structure: body.structureName, tools: 'tools' } };
  },
};

export const messagesProtocol: Protocol<typeof messagesRules.schema, MessagesBody> = {
  idMark: 'msg_',
  rules: messagesRules,
  kind: messagesKind,
  read: readMessages,
  framing: messageEvents,
  resumable: true,
  shape: (options, given, { request }) =>
    messageShape({ ...options, request, omitsThinking: omitsThinking(given) }),
};
