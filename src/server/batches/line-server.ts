// The door by which lines of batches come in: a server of its own that listens nowhere, with the very routes a client has.
// Who asks is said by who opens it, so that no request from outside can come in this way.

import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import type { RequestUsage } from '../../store/usage-store.ts';
import type { ServerContext } from '../context.ts';
import { badRequest, shuttingDown } from '../http/errors.ts';
import { chatProtocol, textProtocol } from '../jobs/protocol.ts';
import { serveCompletion } from '../jobs/serve-completion.ts';
import { serveEmbeddings } from '../openai/embeddings.ts';
import type { Caller } from '../request/auth.ts';
import { KeptResponses } from '../responses/kept-responses.ts';
import { newResponse, responsesErrorBody } from '../responses/protocol.ts';
import { RunningResponses } from '../responses/running-responses.ts';

export const ENDPOINTS = [
  '/v1/chat/completions',
  '/v1/completions',
  '/v1/embeddings',
  '/v1/responses',
] as const;

export type Endpoint = (typeof ENDPOINTS)[number];

export interface LineRequest {
  /** Of the request; no other that runs has the same. */
  readonly id: string;
  readonly endpoint: Endpoint;
  /** JSON. */
  readonly body: string;
  readonly caller: Caller;
  readonly signal: AbortSignal;
}

export type LineOutcome =
  | {
      readonly kind: 'answer';
      readonly status: number;
      /** JSON. */
      readonly body: string;
      /** Undefined where no engine was asked. */
      readonly usage: RequestUsage | undefined;
    }
  /** Not now: a limit, a full queue, a model that cannot be loaded. */
  | { readonly kind: 'later'; readonly afterMs: number }
  | { readonly kind: 'aborted' };

interface Visit extends LineRequest {
  usage: RequestUsage | undefined;
}

type Serve = (context: ServerContext, request: FastifyRequest, reply: FastifyReply) => Promise<FastifyReply>;

const low = { forceLow: true };
const DEFAULT_PAUSE_MS = 1000;

export class LineDoor {
  readonly #app: FastifyInstance;
  readonly #visits = new Map<string, Visit>();

  /** `app` is to listen nowhere. */
  constructor(app: FastifyInstance, given: ServerContext) {
    this.#app = app;
    const context: ServerContext = {
      ...given,
      limiter: given.limiter.apart(),
      // Its batch is what a client comes back to.
      archive: undefined,
      // A line may wait for as long as its batch.
      settings: { ...given.settings, requestTimeoutMs: Number.POSITIVE_INFINITY },
    };
    app.addHook('onRequest', async (request, reply) => this.#admit(context, request, reply));
    for (const [endpoint, serve] of Object.entries(servers(context))) {
      const config = endpoint === '/v1/responses' ? { errorBody: responsesErrorBody } : {};
      app.post(endpoint, { config }, (request, reply) =>
        serve({ ...context, usage: this.#usageOf(context, request) }, request, reply),
      );
    }
  }

  async ask(line: LineRequest): Promise<LineOutcome> {
    const { id, endpoint, body, signal } = line;
    const streams = (JSON.parse(body) as { stream?: unknown }).stream === true;
    if (streams) {
      const refusal = badRequest('stream', 'is not possible in a batch; leave it out');
      return {
        kind: 'answer',
        status: refusal.status,
        body: JSON.stringify(refusal.body()),
        usage: undefined,
      };
    }
    const visit: Visit = { ...line, usage: undefined };
    this.#visits.set(id, visit);
    try {
      const answer = await this.#app.inject({
        method: 'POST',
        url: endpoint,
        payload: body,
        headers: { 'content-type': 'application/json', 'x-request-id': id },
      });
      const { statusCode: status } = answer;
      if (signal.aborted || status === 499) return { kind: 'aborted' };
      if (status !== 429 && status !== 503) {
        return { kind: 'answer', status, body: answer.body, usage: visit.usage };
      }
      return { kind: 'later', afterMs: pauseOf(answer.headers) };
    } catch (error) {
      if (signal.aborted) return { kind: 'aborted' };
      throw error;
    } finally {
      this.#visits.delete(id);
    }
  }

  close(): Promise<void> {
    return this.#app.close();
  }

  #admit({ activity }: ServerContext, request: FastifyRequest, reply: FastifyReply): void {
    if (activity.draining) throw shuttingDown();
    const visit = this.#visits.get(request.id);
    if (visit === undefined) throw new Error('nobody has opened the door for this request');
    request.caller = visit.caller;
    // As if its client had left.
    const leave = () => reply.raw.destroy();
    if (visit.signal.aborted) leave();
    visit.signal.addEventListener('abort', leave, { once: true });
    reply.raw.once('close', () => visit.signal.removeEventListener('abort', leave));
  }

  /** Counted with the line's answer, not before: a line that is run again counts once. */
  #usageOf({ usage: store }: ServerContext, { id }: FastifyRequest): ServerContext['usage'] {
    const visit = this.#visits.get(id);
    const note = (usage: RequestUsage) => {
      if (visit !== undefined) visit.usage = usage;
    };
    return (
      store && {
        record: (_keyId, usage) => note(usage),
        recordOnce: (_requestId, _keyId, usage) => note(usage),
        written: async () => {},
        report: (query) => store.report(query),
      }
    );
  }
}

function servers(context: ServerContext): Readonly<Record<Endpoint, Serve>> {
  const kept = new KeptResponses(context);
  const running = new RunningResponses();
  return {
    '/v1/chat/completions': (own, request, reply) => serveCompletion(own, chatProtocol, request, reply, low),
    '/v1/completions': (own, request, reply) => serveCompletion(own, textProtocol, request, reply, low),
    '/v1/embeddings': (own, request, reply) => serveEmbeddings(own, request, reply, low),
    '/v1/responses': (own, request, reply) =>
      serveCompletion(own, newResponse(kept, running), request, reply, low),
  };
}

function pauseOf(headers: Readonly<Record<string, unknown>>): number {
  const ms = Number(headers['retry-after-ms'] ?? Number.NaN);
  if (Number.isFinite(ms)) return ms;
  const seconds = Number(headers['retry-after'] ?? Number.NaN);
  return Number.isFinite(seconds) ? seconds * 1000 : DEFAULT_PAUSE_MS;
}
