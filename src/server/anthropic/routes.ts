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
import { countedOnce, editContext } from './context-edits.ts';
import { anthropicError } from './errors.ts';
import { withImageFiles } from './image-files.ts';
import { messagesKind, messagesProtocol } from './protocol.ts';
import { type MessagesBody, readMessages } from './read.ts';
import { countRules, countSchema, messagesRules, messagesSchema } from './schema.ts';

export function messageRoutes(context: ServerContext): readonly Route[] {
  const config = { errorBody: anthropicError, idHeader: 'request-id' };
  const common = {
    method: 'POST',
    access: 'key',
    takesImages: true,
    error: anthropicErrorSchema,
    config,
  } as const;
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
): Promise<object> {
  const incoming = requestContext(context, request, reply);
  const given = await withImageFiles(readBody(countRules, request, reply), incoming);
  const body = readMessages(given, incoming);
  const { edits } = given.context_management ?? {};
  return countTokens(incoming, messagesKind, body.model, async (count) => {
    const countOf = countedOnce((messages: MessagesBody['messages']) => count({ ...body, messages }));
    const original = await countOf(body.messages);
    if (!edits || edits.length === 0) return { input_tokens: original };
    const { messages } = await editContext(edits, body.messages, countOf);
    return {
      input_tokens: await countOf(messages),
      context_management: { original_input_tokens: original },
    };
  });
}
