// POST /v1/messages and /v1/messages/count_tokens.

import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { readPrompt } from '../../generation/prompt.ts';
import type { ServerContext } from '../context.ts';
import { parseBody, unknownWarning } from '../http/parse-body.ts';
import { serveCompletion } from '../jobs/serve-completion.ts';
import { NO_TOKENS } from '../limits/key-limiter.ts';
import type { Caller } from '../request/auth.ts';
import { findEntry } from '../request/find-model.ts';
import { stay, withModel } from '../request/request-scope.ts';
import { anthropicError } from './errors.ts';
import { messagesKind, messagesProtocol } from './protocol.ts';
import { readMessages } from './read.ts';
import { countRules } from './schema.ts';

export function messageRoutes(app: FastifyInstance, context: ServerContext): void {
  const config = { errorBody: anthropicError, idHeader: 'request-id' };
  app.post('/v1/messages', { config }, (request, reply) =>
    serveCompletion(context, messagesProtocol, request, reply, { forceLow: false }),
  );
  app.post('/v1/messages/count_tokens', { config }, (request, reply) => countTokens(context, request, reply));
}

/** Of the very prompt that would be answered; it counts as a request, not as tokens. */
async function countTokens(
  context: ServerContext,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<{ input_tokens: number }> {
  const { body: given, unknown } = parseBody(countRules, request.body);
  if (unknown.length > 0) reply.header('x-chairlift-warning', unknownWarning(unknown));
  const body = readMessages(given, { context, request });
  const inputs = messagesKind.prompts(body, context.settings);
  const name = findEntry(context.pool, body.model).name;
  const { keyId: account } = request.caller as Caller;
  const count = await stay(context, request, reply, NO_TOKENS, ({ signal }) =>
    withModel(context, name, signal, async (model) => {
      const { encoders: encoder, settings: limits } = context;
      const options = { encoder, account, signal, limits, parameter: 'messages', mustFit: false };
      const prompts = await Promise.all(inputs.map((input) => readPrompt(input, model, options)));
      return prompts.reduce((sum, { ids }) => sum + ids.length, 0);
    }),
  );
  return { input_tokens: count };
}
