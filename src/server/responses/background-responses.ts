// Runs responses that no client waits for, as requests to a server of its own, which listens nowhere. Each is stored before
// its client hears of it, and leased, so that the next server goes on with what this one leaves: from the tokens that are kept,
// or from the beginning where none are.

import { randomBytes } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import type { FastifyBaseLogger, FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import type { BackgroundResponse } from '../../store/background-store.ts';
import type { Lease } from '../../store/batch-record.ts';
import { isGone } from '../../store/lease-owner.ts';
import type { BackgroundDeps, ServerContext } from '../context.ts';
import { badRequest, fromStore, shuttingDown } from '../http/errors.ts';
import { serveCompletion } from '../jobs/serve-completion.ts';
import { absentCaller, type Caller, callerOf } from '../request/auth.ts';
import { imageBodyLimit } from '../settings.ts';
import { BackgroundRun } from './background-run.ts';
import { KeptResponses, RunningResponses } from './kept-responses.ts';
import { newResponse, responsesErrorBody } from './protocol.ts';
import { EndedEvents, type ResponseEvents } from './response-events.ts';
import { responseError } from './response-object.ts';

const URL = '/v1/responses';
/** Also how soon a response that another server left, or called off, is noticed. */
const POLL_MS = 1000;
/** After this time others take over what a dead server held. */
const LEASE_MS = 30_000;
const RENEW_EVERY_MS = LEASE_MS / 3;
const TAKEN_AT_ONCE = 16;
/** A limit, a full queue or a model that has no room is waited for so long. */
const LONGEST_WAIT_MS = 86_400_000;
const DEFAULT_PAUSE_MS = 1000;
const LONGEST_PAUSE_MS = 30_000;
/** Errors of an answer that cannot be gone on with, but begun anew. */
const BEGIN_ANEW = ['answer_changed', 'unknown_request'];
const WAIT_FOR = [429, 503];

interface Refusal {
  readonly status: number;
  readonly headers: Readonly<Record<string, unknown>>;
  readonly body: { readonly error?: { readonly code?: string | null; readonly message?: string } };
}

export class BackgroundResponses {
  readonly #app: FastifyInstance;
  readonly #context: ServerContext;
  readonly #deps: BackgroundDeps;
  readonly #kept: KeptResponses;
  readonly #log: FastifyBaseLogger;
  readonly #runs = new Map<string, { readonly run: BackgroundRun; readonly ended: Promise<unknown> }>();
  readonly #served = new WeakMap<BackgroundRun, Promise<unknown>>();
  readonly #ended = new EndedEvents();
  readonly #stopping = new AbortController();
  #timer: NodeJS.Timeout | undefined;
  #ticking: Promise<void> | undefined;
  #isStarted = false;
  #renewedMs = Number.NEGATIVE_INFINITY;

  constructor(app: FastifyInstance, given: ServerContext, deps: BackgroundDeps) {
    this.#app = app;
    this.#context = {
      ...given,
      // In a fleet tokens are kept by those that compute, for clients that come back within minutes.
      archive: given.archive?.follow === undefined ? undefined : given.archive,
      settings: { ...given.settings, requestTimeoutMs: Number.POSITIVE_INFINITY },
    };
    this.#deps = deps;
    this.#kept = new KeptResponses(given);
    this.#log = given.logger;
    app.addHook('onRequest', async (request, reply) => this.#admit(request, reply));
    const options = { config: { errorBody: responsesErrorBody }, bodyLimit: imageBodyLimit(given.settings) };
    app.post(URL, options, (request, reply) => {
      const run = this.#runOf(request);
      const protocol = newResponse(this.#kept, new RunningResponses(), run);
      const asked = { forceLow: false, background: run.request };
      const served = serveCompletion(this.#context, protocol, request, reply, asked);
      this.#served.set(run, served);
      return served;
    });
  }

  /** Goes on with what servers of this machine had begun before they ended. */
  async start(): Promise<void> {
    const { store } = this.#deps;
    try {
      for (const owner of (await store.owners()).filter(isGone)) await store.giveBackAll(owner);
    } catch (error) {
      // Then the leases run out by themselves.
      this.#log.error({ err: error }, 'responses in the background');
    }
    this.#isStarted = true;
    this.#poll();
    this.#tick();
  }

  /** Begins nothing new; what runs may end. */
  stop(): void {
    this.#stopping.abort();
  }

  /** Resolves when nothing runs. Does not end requests: the caller must. */
  async close(): Promise<void> {
    this.stop();
    await this.#ticking;
    await Promise.all([...this.#runs.values()].map(({ ended }) => ended));
    clearInterval(this.#timer);
  }

  /** Answers as soon as the response is stored and queued, or with the reason why it is refused. */
  async begin(request: FastifyRequest, reply: FastifyReply): Promise<unknown> {
    const { stream, ...body } = request.body as Readonly<Record<string, unknown>>;
    if (body.store === false) throw badRequest('store', 'must not be false for a response in the background');
    if (!this.#kept.keeps) throw notKept();
    if (stream != null && typeof stream !== 'boolean') throw badRequest('stream', 'must be true or false');
    const row = {
      id: `resp_${randomBytes(16).toString('hex')}`,
      keyId: callerOf(request).keyId,
      // By the clock of those that may go on with it.
      createdMs: Math.floor(await explained(() => this.#deps.store.nowMs())),
      body: JSON.stringify(body),
      streamed: stream === true,
    };
    const caller = { ...callerOf(request), admin: false, background: stream !== true };
    const run = this.#runFor(row, caller, request.ip);
    const refused = this.#begin(run);
    const outcome = await Promise.race([run.accepted.then((headers) => ({ headers })), refused]);
    if (outcome === undefined) throw new Error('the request has ended without a word');
    for (const [name, value] of Object.entries(outcome.headers)) {
      if (!['x-request-id', 'connection', 'content-length', 'content-type', 'date'].includes(name))
        reply.header(name, value);
    }
    if ('status' in outcome) return reply.code(outcome.status).send(outcome.body);
    if (run.streamed === undefined) return run.now();
    await run.streamed.send(reply, -1, this.#context.settings.keepAliveMs);
    return reply;
  }

  /** Those that are here alone. */
  find(keyId: string, id: string): BackgroundRun | undefined {
    const run = this.#runs.get(id)?.run;
    return run?.row.keyId === keyId && run.isAccepted ? run : undefined;
  }

  /** As it is known to the store: another server answers it, or none yet. */
  async findElsewhere(keyId: string, id: string): Promise<object | undefined> {
    const row = await explained(() => this.#deps.store.find(keyId, id));
    return row && (row.cancelled ? { ...row.shown, status: 'cancelled' } : row.shown);
  }

  eventsOf(keyId: string, id: string): ResponseEvents | undefined {
    return this.find(keyId, id)?.streamed ?? this.#ended.find(keyId, id);
  }

  /** Undefined where none is queued or runs. */
  async cancel(keyId: string, id: string): Promise<object | undefined> {
    const row = await explained(() => this.#deps.store.find(keyId, id));
    // First in the store: a process that dies now must not go on with it after its restart.
    if (row === undefined || !(await explained(() => this.#deps.store.cancel(keyId, id)))) return undefined;
    const here = this.#runs.get(id);
    if (here === undefined) return { ...row.shown, status: 'cancelled' };
    here.run.cancel();
    await here.ended;
    return here.run.now();
  }

  #runOf({ id }: FastifyRequest): BackgroundRun {
    const run = this.#runs.get(id)?.run;
    if (run === undefined) throw new Error('this request is no response in the background');
    return run;
  }

  #admit(request: FastifyRequest, reply: FastifyReply): void {
    if (this.#context.activity.draining) throw shuttingDown();
    const { caller, signal } = this.#runOf(request);
    request.caller = caller;
    // It ends as if its client had left.
    const leave = () => reply.raw.destroy();
    if (signal.aborted) leave();
    signal.addEventListener('abort', leave, { once: true });
    reply.raw.once('close', () => signal.removeEventListener('abort', leave));
  }

  #runFor(
    row: ConstructorParameters<typeof BackgroundRun>[0],
    caller: Caller,
    address?: string,
  ): BackgroundRun {
    const { store } = this.#deps;
    return new BackgroundRun(row, {
      caller,
      ...(address === undefined ? {} : { address }),
      kept: this.#kept,
      log: this.#log,
      patienceMs: LEASE_MS,
      add: async (added) => store.add(added, await this.#lease()),
      remove: () => store.remove(row.id),
    });
  }

  /** Resolves when it is over here, with the refusal of what was never accepted. */
  #begin(run: BackgroundRun): Promise<Refusal | undefined> {
    const { id, keyId } = run.row;
    const ended = this.#carry(run)
      .catch((error: unknown) => {
        this.#log.error({ err: error, response: id }, 'a response in the background failed');
        return undefined;
      })
      .finally(async () => {
        run.streamed?.end(run.isSaved ? 'whole' : 'paused');
        if (run.streamed !== undefined && run.isSaved) this.#ended.add(keyId, id, run.streamed);
        if (run.isAccepted && !run.isSaved) await this.#leave(id);
        this.#runs.delete(id);
      });
    this.#runs.set(id, { run, ended });
    this.#poll();
    return ended;
  }

  async #carry(run: BackgroundRun): Promise<Refusal | undefined> {
    for (let isAnew = false; ; ) {
      const refusal = await this.#ask(run, isAnew);
      const { code } = refusal?.body.error ?? {};
      if (run.isSaved) return undefined;
      if (!run.isAccepted) return refusal;
      if (run.isCancelled) return void (await run.end('cancelled'));
      // The next process goes on with it.
      if (this.#stopping.signal.aborted || code === 'shutting_down' || run.hasBegun) return undefined;
      if (refusal === undefined) throw new Error('it has ended without an answer');
      if (!isAnew && BEGIN_ANEW.includes(code ?? '') && !run.row.streamed) {
        isAnew = true;
        continue;
      }
      const waitedMs = (await this.#deps.store.nowMs()) - run.row.createdMs;
      const isWorthIt = waitedMs < LONGEST_WAIT_MS && WAIT_FOR.includes(refusal.status);
      if (!isWorthIt) return void (await run.end('failed', errorOf(refusal)));
      await this.#pause(run, refusal);
    }
  }

  /** Undefined where it was answered, or called off. */
  async #ask(run: BackgroundRun, isAnew: boolean): Promise<Refusal | undefined> {
    const { id, keyId, body } = run.row;
    const { archive } = this.#context;
    try {
      const isKnown = !isAnew && run.isAccepted && (await archive?.find(keyId, id)) !== undefined;
      const answer = await this.#app.inject({
        method: 'POST',
        url: URL,
        payload: body,
        ...(run.address === undefined ? {} : { remoteAddress: run.address }),
        headers: {
          'content-type': 'application/json',
          'x-request-id': id,
          ...(isKnown ? { 'last-event-id': '0' } : {}),
        },
      });
      const { statusCode: status, headers } = answer;
      return status < 400 || status === 499 ? undefined : { status, headers, body: answer.json() };
    } catch (error) {
      if (run.isCancelled) return undefined;
      throw error;
    } finally {
      // One that is called off may still store what it has.
      await this.#served.get(run)?.catch(() => {});
    }
  }

  async #pause({ signal }: BackgroundRun, { headers }: Refusal): Promise<void> {
    const askedMs = Number(headers['retry-after-ms'] ?? Number(headers['retry-after'] ?? Number.NaN) * 1000);
    const pauseMs = Math.min(Number.isFinite(askedMs) ? askedMs : DEFAULT_PAUSE_MS, LONGEST_PAUSE_MS);
    const ending = AbortSignal.any([signal, this.#stopping.signal]);
    await sleep(pauseMs, undefined, { signal: ending, ref: false }).catch(() => {});
  }

  async #leave(id: string): Promise<void> {
    const { store, owner } = this.#deps;
    await store
      .giveBack(id, owner)
      .catch((error: unknown) => this.#log.error({ err: error }, 'responses in the background'));
  }

  #poll(): void {
    this.#timer ??= setInterval(() => this.#tick(), POLL_MS).unref();
  }

  #tick(): void {
    this.#ticking ??= this.#advance()
      .catch((error: unknown) => this.#log.error({ err: error }, 'responses in the background'))
      .finally(() => {
        this.#ticking = undefined;
      });
  }

  async #advance(): Promise<void> {
    const { store, owner } = this.#deps;
    if (this.#runs.size > 0) {
      for (const id of await store.cancelledOf(owner)) this.#runs.get(id)?.run.cancel();
    }
    if (performance.now() - this.#renewedMs >= RENEW_EVERY_MS) {
      this.#renewedMs = performance.now();
      await store.renew([...this.#runs.keys()], await this.#lease());
    }
    if (!this.#isStarted || this.#stopping.signal.aborted) return;
    for (const row of await store.take(TAKEN_AT_ONCE, await this.#lease())) await this.#takeUp(row);
  }

  async #takeUp(row: BackgroundResponse): Promise<void> {
    const { keys, settings } = this.#context;
    const { id, keyId } = row;
    // Its lease ran out while it ran here.
    if (this.#runs.has(id)) return;
    // The process that stored it died before it could say so.
    if ((await this.#kept.find(keyId, id)) !== undefined) return this.#deps.store.remove(id);
    const caller = await absentCaller(keyId, keys, settings.allowAnonymous);
    if (caller === 'unsure') return this.#leave(id);
    const run = this.#runFor(row, caller ?? { keyId, tier: 'low', admin: false, limits: {} });
    if (row.cancelled) await run.end('cancelled');
    else if (caller === undefined) await run.end('failed', revoked);
    else void this.#begin(run);
  }

  async #lease(): Promise<Lease> {
    const nowMs = await this.#deps.store.nowMs();
    return { owner: this.#deps.owner, nowMs, untilMs: nowMs + LEASE_MS };
  }
}

export function notKept() {
  const problem = 'needs a server that keeps responses, and this one keeps none';
  return badRequest('background', problem, 'unsupported_parameter');
}

const explained = <Result>(action: () => Promise<Result>) => fromStore('responses in the background', action);

const revoked = responseError({
  status: 401,
  message: 'the key was revoked, or requests without a key are not served any more',
});

function errorOf({ status, body }: Refusal): object {
  return responseError({ status, message: body.error?.message ?? `it was refused with status ${status}` });
}
