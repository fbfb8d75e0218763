// POST /v1/messages and /v1/messages/count_tokens.

import type { FastifyReply, FastifyRequest } from 'fastify';
import type { ServerContext } from '../context.ts';
import { readBody, rulesNote } from '../http/parse-body.ts';
import { countTokens } from '../jobs/count-tokens.ts';
import { serveCompletion } from '../jobs/serve-completion.ts';
import { requestContext } from '../request/request-scope.ts';
import type { Route } from '../route.ts';
import {
  anthropicErrorSchema,
  messageAnswerSchema,
  messageEventSchema,
  tokenCountSchema,
} from './answers.ts';
import { anthropicError } from './errors.ts';
import { messagesKind, messagesProtocol } from './protocol.ts';
import { readMessages } from './read.ts';
import { countRules, countSchema, messagesRules, messagesSchema } from './schema.ts';

export function messageRoutes(context: ServerContext): readonly Route[] {
  const config = { errorBody: anthropicError, idHeader: 'request-id' };
  const common = { method: 'POST', access: 'key', error: anthropicErrorSchema, config } as const;
  return [
    {
      ...common,
      url: '/v1/messages',
      summary: "Answer a conversation, in Anthropic's words",
      description: rulesNote(messagesRules),
      body: messagesSchema,
      answer: messageAnswerSchema,
      chunk: messageEventSchema,
      handler: (request, reply) =>
        serveCompletion(context, messagesProtocol, request, reply, { forceLow: false }),
    },
    {
      ...common,
      url: '/v1/messages/count_tokens',
      summary: 'How many tokens such a conversation is',
      body: countSchema,
      answer: tokenCountSchema,
      handler: (request, reply) => countMessage(context, request, reply),
    },
  ];
}

async function countMessage(
  context: ServerContext,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<{ input_tokens: number }> {
  const given = readBody(countRules, request, reply);
  const incoming = requestContext(context, request, reply);
  return { input_tokens: await countTokens(incoming, messagesKind, readMessages(given, incoming)) };
}
