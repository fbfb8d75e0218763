// /v1/responses: creates, reads, cancels and deletes responses.

import type { FastifyReply, FastifyRequest } from 'fastify';
import { z } from 'zod';
import type { ServerContext } from '../context.ts';
import { ApiError, badRequest, unsupported } from '../http/errors.ts';
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
import { type BackgroundResponses, notKept } from './background-responses.ts';
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
const findSchema = z.object({
  stream: z.enum(['true', 'false'], 'must be true or false').optional(),
  starting_after: z.coerce.number('must be the number of an event').int().min(0).optional(),
});
const findRules: BodyRules<typeof findSchema> = {
  schema: findSchema,
  noOps: ['include', 'include[]', 'include_obfuscation'],
  refused: {},
};
const pageRules: BodyRules<typeof pageSchema> = { schema: pageSchema, noOps: ['include'], refused: {} };

/** `background`: absent where no responses are kept. */
export function responseRoutes(context: ServerContext, background?: BackgroundResponses): readonly Route[] {
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
      handler: (request, reply) => {
        const isBackground =
          (request.body as { background?: unknown } | null | undefined)?.background === true;
        if (!isBackground) {
          return serveCompletion(context, newResponse(kept, running), request, reply, { forceLow: false });
        }
        if (background === undefined) throw notKept();
        return background.begin(request, reply);
      },
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
      description:
        'With stream=true the events of a response in the background that was asked for as a stream; starting_after=N: those after event N.',
      answer: responseSchema,
      chunk: responseEventSchema,
      handler: (request, reply) => {
        const { body: query } = parseBody(findRules, request.query);
        if (query.stream === 'true') return stream(context, kept, background, request, reply, query);
        if (query.starting_after === undefined) return find(kept, running, background, request);
        throw badRequest('starting_after', 'needs stream=true');
      },
    },
    {
      method: 'DELETE',
      url: '/v1/responses/:id',
      access: 'key',
      summary: 'Delete a response',
      answer: deletedSchema,
      handler: (request) => remove(kept, running, background, request),
    },
    {
      method: 'POST',
      url: '/v1/responses/:id/cancel',
      access: 'key',
      summary: 'Call off a response that is being streamed, or runs in the background',
      answer: responseSchema,
      handler: (request) => cancel(kept, running, background, request),
    },
    {
      method: 'GET',
      url: '/v1/responses/:id/input_items',
      access: 'key',
      summary: 'What was given for a response, from the beginning of its conversation; after, limit, order',
      answer: inputItemsSchema,
      handler: (request) => inputItems(kept, background, request),
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
  background: BackgroundResponses | undefined,
  request: FastifyRequest,
): Promise<object> {
  const { keyId } = callerOf(request);
  const id = idOf(request);
  const now = running.find(keyId, id);
  if (now?.kept) return now.now();
  const here = background?.find(keyId, id);
  if (here !== undefined) return here.now();
  // In this order: one that ends meanwhile is stored before it leaves the background.
  const elsewhere = await background?.findElsewhere(keyId, id);
  const response = (await kept.find(keyId, id)) ?? elsewhere;
  if (response === undefined) throw notFound(id);
  return response;
}

async function stream(
  { settings }: ServerContext,
  kept: KeptResponses,
  background: BackgroundResponses | undefined,
  request: FastifyRequest,
  reply: FastifyReply,
  { starting_after: after = -1 }: z.infer<typeof findSchema>,
): Promise<FastifyReply> {
  const { keyId } = callerOf(request);
  const id = idOf(request);
  const events = background?.eventsOf(keyId, id);
  if (events !== undefined) {
    await events.send(reply, after, settings.keepAliveMs);
    return reply;
  }
  const isHere = background?.find(keyId, id) !== undefined;
  if (isHere)
    throw unsupported('stream', 'only responses that were asked for with stream: true are streamed');
  const isOpen = (await background?.findElsewhere(keyId, id)) !== undefined;
  const problem = isOpen
    ? 'another server has this response, or none has taken it up yet; ask again, or without stream'
    : 'the events of this response are not kept, or not any more; ask without stream';
  if (!isOpen && (await kept.find(keyId, id)) === undefined) throw notFound(id);
  throw badRequest('stream', problem, 'events_not_kept');
}

async function remove(
  kept: KeptResponses,
  running: RunningResponses,
  background: BackgroundResponses | undefined,
  request: FastifyRequest,
): Promise<object> {
  const { keyId } = callerOf(request);
  const id = idOf(request);
  const isOpen = running.find(keyId, id) ?? (await background?.findElsewhere(keyId, id));
  if (isOpen !== undefined) {
    throw new ApiError(409, `the response '${id}' is still running; cancel it first`, { code: 'running' });
  }
  if (!(await kept.remove(keyId, id))) throw notFound(id);
  return { id, object: 'response', deleted: true };
}

async function cancel(
  kept: KeptResponses,
  running: RunningResponses,
  background: BackgroundResponses | undefined,
  request: FastifyRequest,
): Promise<object> {
  const { keyId } = callerOf(request);
  const id = idOf(request);
  const response = running.find(keyId, id);
  if (response !== undefined) return response.cancel();
  const cancelled = await background?.cancel(keyId, id);
  if (cancelled !== undefined) return cancelled;
  const ended = (await kept.find(keyId, id)) as { readonly background?: boolean } | undefined;
  if (ended === undefined) throw notFound(id);
  // As OpenAI has it: calling off twice is no error.
  if (ended.background === true) return ended;
  throw new ApiError(400, `the response '${id}' has ended already`, { code: 'not_running' });
}

async function inputItems(
  kept: KeptResponses,
  background: BackgroundResponses | undefined,
  request: FastifyRequest,
): Promise<object> {
  const { keyId } = callerOf(request);
  const id = idOf(request);
  const { body: page } = parseBody(pageRules, request.query);
  const isOpen = (await background?.findElsewhere(keyId, id)) !== undefined;
  const response = (await kept.find(keyId, id)) as { previous_response_id?: string | null } | undefined;
  if (response === undefined && isOpen) {
    const message = `the response '${id}' is still running: its items are kept once it has ended`;
    throw new ApiError(409, message, { code: 'running' });
  }
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
