// POST /v1/messages and /v1/messages/count_tokens.

import type { FastifyReply, FastifyRequest } from 'fastify';
import { readPrompt } from '../../generation/prompt.ts';
import type { ServerContext } from '../context.ts';
import { readBody, rulesNote } from '../http/parse-body.ts';
import { tokensOf } from '../jobs/encode-prompts.ts';
import { serveCompletion } from '../jobs/serve-completion.ts';
import { NO_TOKENS } from '../limits/key-limiter.ts';
import { findEntry } from '../request/find-model.ts';
import { requestContext, withRequestScope } from '../request/request-scope.ts';
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
      handler: (request, reply) => countTokens(context, request, reply),
    },
  ];
}

/** Counts the very prompt that would be answered. The limits count it as a request, not as tokens. */
async function countTokens(
  context: ServerContext,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<{ input_tokens: number }> {
  const given = readBody(countRules, request, reply);
  const incoming = requestContext(context, request, reply);
  const body = readMessages(given, incoming);
  const inputs = messagesKind.prompts(body, context.settings);
  const name = findEntry(context.pool, body.model).name;
  const options = { modelName: name, demand: NO_TOKENS, sequences: 0 };
  const count = await withRequestScope(incoming, options, async ({ model, caller, signal }) => {
    const { encoders: encoder, settings: limits } = context;
    const encoding = {
      encoder,
      account: caller.keyId,
      signal,
      limits,
      parameter: 'messages',
      mustFit: false,
    };
    const prompts = await Promise.all(inputs.map((input) => readPrompt(input, model, encoding)));
    return tokensOf(prompts);
  });
  return { input_tokens: count };
}
