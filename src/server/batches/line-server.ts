// Runs lines of batches as requests to a server of its own, which listens nowhere and has the very routes a client has. The
// runner says in whose name a line runs, so that no request from outside can claim that.

import type { FastifyContextConfig, FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import type { ModelPool } from '../../pool/model-pool.ts';
import type { RequestUsage } from '../../store/usage-batch.ts';
import { anthropicError } from '../anthropic/errors.ts';
import { messagesProtocol } from '../anthropic/protocol.ts';
import type { RequestArchive, ServerContext } from '../context.ts';
import { badRequest, shuttingDown } from '../http/errors.ts';
import { serveCompletion } from '../jobs/serve-completion.ts';
import { chatProtocol } from '../openai/chat.ts';
import { textProtocol } from '../openai/completions.ts';
import { serveEmbeddings } from '../openai/embeddings.ts';
import type { Caller } from '../request/auth.ts';
import { findEntry } from '../request/find-model.ts';
import { KeptResponses, RunningResponses } from '../responses/kept-responses.ts';
import { newResponse, responsesErrorBody } from '../responses/protocol.ts';

export const ENDPOINTS = [
  '/v1/chat/completions',
  '/v1/completions',
  '/v1/embeddings',
  '/v1/responses',
  '/v1/messages',
] as const;

export type Endpoint = (typeof ENDPOINTS)[number];

interface LineRequest {
  /** The id of the request; no other running request has the same. */
  readonly id: string;
  readonly endpoint: Endpoint;
  readonly body: string;
  readonly caller: Caller;
  readonly signal: AbortSignal;
}

export type LineOutcome =
  | {
      readonly kind: 'answer';
      readonly status: number;
      readonly body: string;
      readonly usage: RequestUsage | undefined;
    }
  /** Not now: a limit, a full queue, a model that cannot be loaded. */
  | { readonly kind: 'later'; readonly afterMs: number }
  | { readonly kind: 'aborted' };

type Response = Awaited<ReturnType<FastifyInstance['inject']>>;

interface RunningLine extends LineRequest {
  usage: RequestUsage | undefined;
}

type Serve = (context: ServerContext, request: FastifyRequest, reply: FastifyReply) => Promise<FastifyReply>;

/** Their usage is written in one transaction with their answers. */
const low = { forceLow: true, background: { chargedWithAnswer: true } };
const DEFAULT_PAUSE_MS = 1000;
const MODEL_PAUSE_MS = 30_000;

export class LineServer {
  readonly #app: FastifyInstance;
  /** The pool of a gateway: a model that was there when the batch was read may come back. */
  readonly #fleet: ModelPool | undefined;
  readonly #archive: RequestArchive | undefined;
  readonly #running = new Map<string, RunningLine>();

  constructor(app: FastifyInstance, given: ServerContext) {
    this.#app = app;
    this.#fleet = given.fleet && given.pool;
    const context: ServerContext = {
      ...given,
      limiter: given.limiter.apart(),
      // In a fleet tokens are kept by those that compute, for clients that come back within minutes.
      archive: given.archive?.follow === undefined ? undefined : given.archive,
      // A line may wait for as long as its batch.
      settings: { ...given.settings, requestTimeoutMs: Number.POSITIVE_INFINITY },
    };
    this.#archive = context.archive;
    app.addHook('onRequest', async (request, reply) => this.#admit(context, request, reply));
    for (const [endpoint, serve] of Object.entries(handlers(context))) {
      const config = errorBodies[endpoint] ?? {};
      app.post(endpoint, { config }, (request, reply) =>
        serve({ ...context, usage: this.#usageOf(context, request) }, request, reply),
      );
    }
  }

  async run(given: LineRequest): Promise<LineOutcome> {
    const { id, endpoint, body, signal } = given;
    const { stream, model } = JSON.parse(body) as { stream?: unknown; model?: string | null };
    if (this.#fleet !== undefined && !isKnown(this.#fleet, model)) {
      return { kind: 'later', afterMs: MODEL_PAUSE_MS };
    }
    if (stream === true) {
      const refusal = badRequest('stream', 'is not possible in a batch; leave it out');
      const refused = endpoint === '/v1/messages' ? anthropicError(refusal, { id }) : refusal.body();
      return {
        kind: 'answer',
        status: refusal.status,
        body: JSON.stringify(refused),
        usage: undefined,
      };
    }
    const line: RunningLine = { ...given, usage: undefined };
    this.#running.set(id, line);
    try {
      const answer = await this.#ask(given);
      const { statusCode: status } = answer;
      if (signal.aborted || status === 499) return { kind: 'aborted' };
      if (status !== 429 && status !== 503) {
        return { kind: 'answer', status, body: answer.body, usage: line.usage };
      }
      return { kind: 'later', afterMs: pauseOf(answer.headers) };
    } catch (error) {
      if (signal.aborted) return { kind: 'aborted' };
      throw error;
    } finally {
      this.#running.delete(id);
    }
  }

  close(): Promise<void> {
    return this.#app.close();
  }

  /** Goes on with what an earlier process knew of the answer, where that is possible. */
  async #ask({ id, endpoint, body, caller }: LineRequest): Promise<Response> {
    const ask = (headers: Readonly<Record<string, string>>) =>
      this.#app.inject({
        method: 'POST',
        url: endpoint,
        payload: body,
        headers: { 'content-type': 'application/json', 'x-request-id': id, ...headers },
      });
    // While the store cannot be read the line begins anew.
    const kept = await this.#archive?.find(caller.keyId, id).catch(() => undefined);
    if (kept === undefined) return ask({});
    const answer = await ask({ 'last-event-id': '0' });
    return answer.statusCode === 409 || answer.statusCode === 404 ? ask({}) : answer;
  }

  #admit({ activity }: ServerContext, request: FastifyRequest, reply: FastifyReply): void {
    if (activity.draining) throw shuttingDown();
    const line = this.#running.get(request.id);
    if (line === undefined) throw new Error('this request is no line of a batch');
    request.caller = line.caller;
    // An abort ends the request as if its client had left.
    const leave = () => reply.raw.destroy();
    if (line.signal.aborted) leave();
    line.signal.addEventListener('abort', leave, { once: true });
    reply.raw.once('close', () => line.signal.removeEventListener('abort', leave));
  }

  /** Usage is stored together with the line's answer, so that a line that is run again counts once. */
  #usageOf({ usage: store }: ServerContext, { id }: FastifyRequest): ServerContext['usage'] {
    const line = this.#running.get(id);
    const note = (usage: RequestUsage) => {
      if (line !== undefined) line.usage = usage;
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

const errorBodies: Readonly<Record<string, FastifyContextConfig>> = {
  '/v1/responses': { errorBody: responsesErrorBody },
  '/v1/messages': { errorBody: anthropicError },
};

function handlers(context: ServerContext): Readonly<Record<Endpoint, Serve>> {
  const kept = new KeptResponses(context);
  const running = new RunningResponses();
  return {
    '/v1/chat/completions': (own, request, reply) => serveCompletion(own, chatProtocol, request, reply, low),
    '/v1/completions': (own, request, reply) => serveCompletion(own, textProtocol, request, reply, low),
    '/v1/embeddings': (own, request, reply) => serveEmbeddings(own, request, reply, low),
    '/v1/responses': (own, request, reply) =>
      serveCompletion(own, newResponse(kept, running), request, reply, low),
    '/v1/messages': (own, request, reply) => serveCompletion(own, messagesProtocol, request, reply, low),
  };
}

function isKnown(pool: ModelPool, model: string | null | undefined): boolean {
  try {
    findEntry(pool, model ?? undefined);
    return true;
  } catch {
    return false;
  }
}

function pauseOf(headers: Readonly<Record<string, unknown>>): number {
  const ms = Number(headers['retry-after-ms'] ?? Number.NaN);
  if (Number.isFinite(ms)) return ms;
  const seconds = Number(headers['retry-after'] ?? Number.NaN);
  return Number.isFinite(seconds) ? seconds * 1000 : DEFAULT_PAUSE_MS;
}
