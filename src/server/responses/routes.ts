// /v1/responses: creates, reads, cancels and deletes responses.

import type { FastifyReply, FastifyRequest } from 'fastify';
import { z } from 'zod';
import type { ServerContext } from '../context.ts';
import { ApiError, unsupported } from '../http/errors.ts';
import { type BodyRules, parseBody, readBody, rulesNote } from '../http/parse-body.ts';
import { countTokens } from '../jobs/count-tokens.ts';
import { serveCompletion } from '../jobs/serve-completion.ts';
import { callerOf } from '../request/auth.ts';
import { requestContext } from '../request/request-scope.ts';
import { idOf, type Route } from '../route.ts';
import {
  deletedSchema,
  inputItemsSchema,
  inputTokensSchema,
  responseEventSchema,
  responseSchema,
} from './answers.ts';
import { readConversation } from './conversation.ts';
import { KeptResponses, RunningResponses } from './kept-responses.ts';
import { newResponse, responsesErrorBody, responsesKind } from './protocol.ts';
import { toChatBody } from './read.ts';
import { responsesRules, responsesSchema } from './schema.ts';

const DEFAULT_PAGE = 20;
const LARGEST_PAGE = 100;

const pageSchema = z.object({
  after: z.string().optional(),
  limit: z.coerce.number().int().min(1).max(LARGEST_PAGE).optional(),
  order: z.enum(['asc', 'desc']).optional(),
});
const pageRules: BodyRules<typeof pageSchema> = { schema: pageSchema, noOps: ['include'], refused: {} };

export function responseRoutes(context: ServerContext): readonly Route[] {
  const kept = new KeptResponses(context);
  const running = new RunningResponses();
  return [
    {
      method: 'POST',
      url: '/v1/responses',
      access: 'key',
      summary: 'Answer a conversation, and keep it to go on with',
      description: rulesNote(responsesRules),
      body: responsesSchema,
      takesImages: true,
      answer: responseSchema,
      chunk: responseEventSchema,
      config: { errorBody: responsesErrorBody },
      handler: (request, reply) =>
        serveCompletion(context, newResponse(kept, running), request, reply, { forceLow: false }),
    },
    {
      method: 'POST',
      url: '/v1/responses/input_tokens',
      access: 'key',
      summary: 'How many tokens such a conversation is',
      body: responsesSchema,
      takesImages: true,
      answer: inputTokensSchema,
      config: { errorBody: responsesErrorBody },
      handler: (request, reply) => countInput(context, kept, request, reply),
    },
    {
      method: 'GET',
      url: '/v1/responses/:id',
      access: 'key',
      summary: 'A response that is kept, or still comes',
      answer: responseSchema,
      handler: (request) => find(kept, running, request),
    },
    {
      method: 'DELETE',
      url: '/v1/responses/:id',
      access: 'key',
      summary: 'Delete a response',
      answer: deletedSchema,
      handler: (request) => remove(kept, running, request),
    },
    {
      method: 'POST',
      url: '/v1/responses/:id/cancel',
      access: 'key',
      summary: 'Call off a response that is being streamed',
      answer: responseSchema,
      handler: (request) => cancel(kept, running, request),
    },
    {
      method: 'GET',
      url: '/v1/responses/:id/input_items',
      access: 'key',
      summary: 'What was given for a response, from the beginning of its conversation; after, limit, order',
      answer: inputItemsSchema,
      handler: (request) => inputItems(kept, request),
    },
  ];
}

async function countInput(
  context: ServerContext,
  kept: KeptResponses,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<object> {
  const given = readBody(responsesRules, request, reply);
  const incoming = requestContext(context, request, reply);
  const body = toChatBody(given, await readConversation(given, incoming, kept));
  const input_tokens = await countTokens(incoming, responsesKind, body.model, (count) => count(body));
  return { object: 'response.input_tokens', input_tokens };
}

async function find(
  kept: KeptResponses,
  running: RunningResponses,
  request: FastifyRequest,
): Promise<object> {
  const { stream } = request.query as Readonly<Record<string, unknown>>;
  if (stream === 'true') throw unsupported('stream', 'a response is streamed where it is made');
  const { keyId } = callerOf(request);
  const id = idOf(request);
  const now = running.find(keyId, id);
  const response = now?.kept ? now.now() : await kept.find(keyId, id);
  if (response === undefined) throw notFound(id);
  return response;
}

async function remove(
  kept: KeptResponses,
  running: RunningResponses,
  request: FastifyRequest,
): Promise<object> {
  const { keyId } = callerOf(request);
  const id = idOf(request);
  if (running.find(keyId, id) !== undefined) {
    throw new ApiError(409, `the response '${id}' is still running; cancel it first`, { code: 'running' });
  }
  if (!(await kept.remove(keyId, id))) throw notFound(id);
  return { id, object: 'response', deleted: true };
}

async function cancel(
  kept: KeptResponses,
  running: RunningResponses,
  request: FastifyRequest,
): Promise<object> {
  const { keyId } = callerOf(request);
  const id = idOf(request);
  const response = running.find(keyId, id);
  if (response !== undefined) return response.cancel();
  if ((await kept.find(keyId, id)) === undefined) throw notFound(id);
  throw new ApiError(400, `the response '${id}' has ended already`, { code: 'not_running' });
}

async function inputItems(kept: KeptResponses, request: FastifyRequest): Promise<object> {
  const { keyId } = callerOf(request);
  const id = idOf(request);
  const { body: page } = parseBody(pageRules, request.query);
  const response = (await kept.find(keyId, id)) as { previous_response_id?: string | null } | undefined;
  if (response === undefined) throw notFound(id);
  const all = await kept.givenFor(keyId, id, response.previous_response_id ?? undefined);
  const ordered = page.order === 'asc' ? all : all.reverse();
  const start = page.after === undefined ? 0 : ordered.findIndex((item) => item.id === page.after) + 1;
  const end = start + (page.limit ?? DEFAULT_PAGE);
  const data = ordered.slice(start, end);
  return {
    object: 'list',
    data,
    first_id: data[0]?.id ?? null,
    last_id: data.at(-1)?.id ?? null,
    has_more: end < ordered.length,
  };
}

function notFound(id: string): ApiError {
  const message = `there is no response '${id.slice(0, 128)}'`;
  return new ApiError(404, message, { param: 'id', code: 'response_not_found' });
}
