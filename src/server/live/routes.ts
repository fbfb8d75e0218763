// GET /live: what the engines do, for admins; see live-event.ts. GET /requests and /requests/{id}: the last requests and the
// trace of one; an admin sees all, another key its own.

import type { FastifyReply, FastifyRequest } from 'fastify';
import { ANONYMOUS_KEY_ID } from '../../store/key-record.ts';
import type { ServerContext } from '../context.ts';
import { ApiError, badRequest } from '../http/errors.ts';
import { namedEvents, SseStream } from '../http/sse.ts';
import { type Caller, callerOf } from '../request/auth.ts';
import { idOf, type Route } from '../route.ts';
import type { PrefixLookup, RequestTrace } from './live-event.ts';
import { LiveViewer } from './live-viewer.ts';
import type { KeptLookup, Trace } from './request-traces.ts';

export function liveRoute(context: ServerContext): Route {
  return {
    method: 'GET',
    url: '/live',
    access: 'admin',
    summary: 'What the engines do, four times a second; needs an admin key',
    mediaType: 'text/event-stream',
    exposeHeadRoute: false,
    handler: (_request, reply) => subscribe(context, reply),
  };
}

async function subscribe({ history, live, settings }: ServerContext, reply: FastifyReply): Promise<void> {
  reply.hijack();
  // A client that left while its key was looked up emits no further close event.
  if (reply.raw.destroyed) return;
  const { keepAliveMs } = settings;
  const stream = new SseStream(reply.raw, reply.getHeaders(), keepAliveMs, undefined, namedEvents);
  stream.sendFramed(Buffer.from(namedEvents.frame(history.points(), 'history')));
  // A client that reads nothing for two keep-alive intervals is gone.
  const unsubscribe = live.subscribe(new LiveViewer(reply.raw, stream, 2 * keepAliveMs));
  reply.raw.once('close', unsubscribe);
}

export function requestRoutes(context: ServerContext): readonly Route[] {
  const common = { method: 'GET', access: 'key', atBothAddresses: true } as const;
  return [
    {
      ...common,
      url: '/requests',
      summary: 'The last 500 requests, the newest first; an admin sees all, another key its own; model',
      handler: async (request) => list(context, request),
    },
    {
      ...common,
      url: '/requests/:id',
      summary: 'The trace of a request',
      handler: async (request) => find(context, request),
    },
  ];
}

function list({ traces, refusals }: ServerContext, request: FastifyRequest): object {
  const { model } = request.query as Readonly<Record<string, unknown>>;
  if (model !== undefined && typeof model !== 'string') throw badRequest('model', 'give one name');
  const shown = traces.all().filter(({ of }) => maySee(request, of));
  const nowMs = performance.now();
  const data = shown.filter(({ of }) => model === undefined || of.model === model);
  // What failed in an engine has its trace.
  const traced = new Set(shown.map(({ of }) => of.requestId));
  const refused = refusals.all().filter((one) => maySee(request, one) && !traced.has(one.shown.requestId));
  return {
    object: 'list',
    data: data.map((trace) => trace.brief(nowMs)),
    refusals: model === undefined ? refused.map((one) => one.shown) : [],
  };
}

function find({ traces }: ServerContext, request: FastifyRequest): RequestTrace {
  const id = idOf(request);
  // Clients may choose ids, and so use one twice: the newest request counts.
  const trace = traces.all().find((one) => one.of.requestId === id && maySee(request, one.of));
  if (trace !== undefined) return traceOf(trace, callerOf(request));
  throw new ApiError(404, 'there is no such request, or it was too long ago', { code: 'request_not_found' });
}

/** Callers without a key are distinguished by their address. */
export function maySee(
  request: FastifyRequest,
  of: { readonly keyId: string | undefined; readonly address: string },
): boolean {
  const { admin, keyId } = callerOf(request);
  if (admin) return true;
  return of.keyId === keyId && (keyId !== ANONYMOUS_KEY_ID || of.address === request.ip);
}

function traceOf(trace: Trace, { admin }: Caller): RequestTrace {
  const { prompt } = trace.of;
  return {
    ...trace.brief(performance.now()),
    events: trace.events,
    lookups: trace.lookups.map((lookup) => lookupOf(lookup, admin)),
    ...(prompt === undefined ? {} : { prompt }),
    endReasons: trace.end?.reasons ?? [],
  };
}

/** Only admins may see that another key has sent the same prompt. */
function lookupOf({ elsewhere, ...lookup }: KeptLookup, admin: boolean): PrefixLookup {
  if (admin && elsewhere === true) return { ...lookup, why: 'tenant' };
  return lookup;
}
