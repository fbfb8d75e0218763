// Assembles the HTTP edge. It never listens by itself, so that it can be tested without a socket. Draining it refuses new
// requests with 503 and lets running ones end within a limit; closing it ends the rest.

import { randomBytes } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import type { Socket } from 'node:net';
import {
  type FastifyError,
  type FastifyInstance,
  type FastifyReply,
  type FastifyRequest,
  fastify,
  LogController,
} from 'fastify';
import { AnswerGrammars } from '../generation/answer-grammars.ts';
import { PictureWorkers } from '../images/picture-workers.ts';
import { EncodeWorkers } from '../text/encode-workers.ts';
import { UpstreamPool } from '../upstream/upstream-pool.ts';
import { BatchRunner } from './batches/batch-runner.ts';
import { LineServer } from './batches/line-server.ts';
import type { ServerContext, ServerDeps } from './context.ts';
import { acceptForms, formNeeded } from './files/routes.ts';
import { allowOrigin } from './http/cross-origin.ts';
import { ApiError, badRequest, ClientLeft, isServerFault, kindOf, toApiError } from './http/errors.ts';
import { isTooDeep } from './http/parse-body.ts';
import { ParserErrors } from './http/parser-errors.ts';
import { refuseSlowBodies } from './http/slow-bodies.ts';
import { TypicalAnswer } from './limits/typical-answer.ts';
import { History } from './live/history.ts';
import { LiveFeed } from './live/live-feed.ts';
import { SlidingPercentiles } from './live/recent-measurements.ts';
import { Refusals } from './live/refusals.ts';
import { RequestTraces } from './live/request-traces.ts';
import { DefaultAdapters } from './llama-server/default-adapters.ts';
import { CreatedModels } from './ollama/created-models.ts';
import { Activity } from './request/activity.ts';
import { Admission } from './request/admission.ts';
import { refuseForeignPage } from './request/auth.ts';
import { RequestFeed } from './request/request-feed.ts';
import { BackgroundResponses } from './responses/background-responses.ts';
import { adminOnlyRoutes, clientRoutes, type Route, registerRoutes } from './route.ts';
import { routeTable } from './route-table.ts';
import { HealthCheck, Readiness } from './status/health.ts';
import { Metrics } from './status/metrics.ts';

const LAST_READ_MS = 2000;
const LONGEST_ID = 128;
const LONGEST_PARAMETER = 3 * LONGEST_ID;

export interface ChairliftServer extends FastifyInstance {
  /**
   * Goes on with batches and with responses in the background. Must be called once the server listens: one that cannot have
   * its address must not touch those of another.
   */
  startBackground(): Promise<void>;
  /**
   * Refuses new requests, on old and new connections, and resolves when running ones have ended; those that still run after
   * the limit are ended. Must be called before `close`, and not by its hooks: Fastify gives those ten seconds.
   */
  drain(limitMs: number): Promise<void>;
}

interface ServerPair {
  readonly main: ChairliftServer;
  /** Has /metrics and /admin to itself. Must be closed after the other, so that metrics show how that ends. */
  readonly admin: FastifyInstance;
}

export function createServer(deps: ServerDeps): ChairliftServer {
  const context = makeContext(deps);
  const app = makeApp(context);
  const work = makeWork(app, context);
  return addRoutes(app, context, work, routeTable(context, work.runner, work.background));
}

export function createServerPair(deps: ServerDeps): ServerPair {
  const context = makeContext(deps);
  const app = makeApp(context);
  const work = makeWork(app, context);
  const routes = routeTable(context, work.runner, work.background);
  const admin = makeApp(context);
  admin.register(async (all) => registerRoutes(all, context, adminOnlyRoutes(routes)));
  cutOffOnClose(admin);
  return { main: addRoutes(app, context, work, clientRoutes(routes)), admin };
}

function makeApp(context: ServerContext): FastifyInstance {
  const { logger, settings, tls } = context;
  const parserErrors = new ParserErrors();
  const options = {
    // One of its own: its level is changed for a moment when the server begins to listen.
    loggerInstance: logger.child({}),
    logController: new LogController({ disableRequestLogging: true }),
    bodyLimit: settings.bodyLimitBytes,
    routerOptions: { maxParamLength: LONGEST_PARAMETER },
    clientErrorHandler: (error: FastifyError, socket: Socket) => parserErrors.answer(error, socket),
    trustProxy: settings.trustedProxies.length === 0 ? false : [...settings.trustedProxies],
    genReqId: (request: IncomingMessage) => requestId(request.headers['x-request-id']),
    // The routes themselves refuse requests while the server drains, in the shape that clients know.
    return503OnClosing: false,
    forceCloseConnections: 'idle' as const,
    frameworkErrors: (error: FastifyError, _request: unknown, reply: unknown) => {
      const failure = toApiError(error);
      (reply as FastifyReply).code(failure.status).send(failure.body());
    },
  };
  // HTTP and HTTPS differ in nothing else. A missing Host header is refused below: Node would answer with an empty body.
  const http = { requireHostHeader: false };
  const app = (tls === undefined
    ? fastify({ ...options, http })
    : fastify({ ...options, https: { ...tls, ...http } })) as unknown as FastifyInstance;
  parserErrors.follow(app.server);
  refuseCompressedBodies(app);
  refuseSlowBodies(app, settings.bodyStallMs);
  readBodies(app);
  addErrors(app, context);
  addHooks(app, context);
  return app;
}

/** They would be reported as broken JSON otherwise. */
function refuseCompressedBodies(app: FastifyInstance): void {
  app.addHook('preParsing', async ({ headers }) => {
    const encoding = headers['content-encoding']?.toLowerCase();
    if (encoding === undefined || encoding === 'identity') return;
    throw new ApiError(
      415,
      `this server reads no bodies of content-encoding ${JSON.stringify(encoding)}; send the body uncompressed, without that header`,
      { code: 'unsupported_content_encoding', headers: { 'accept-encoding': 'identity' } },
    );
  });
}

/**
 * A body is JSON whatever its content type says: some clients send none, and `curl -d` sends a form's. An empty one is none;
 * routes that need a body refuse it themselves.
 */
function readBodies(app: FastifyInstance): void {
  const parseJson = app.getDefaultJsonParser('error', 'error');
  app.removeAllContentTypeParsers();
  app.addHook('preParsing', async ({ headers, routeOptions }) => {
    if (routeOptions.config.takesForm !== true) delete headers['content-type'];
  });
  app.addContentTypeParser<string>('*', { parseAs: 'string' }, (request, body, done) => {
    if (request.routeOptions.config.takesForm === true) done(formNeeded());
    else if (body === '') done(null, undefined);
    else if (isTooDeep(body)) done(badRequest('body', 'is nested too deep'));
    else parseJson(request, body, done);
  });
  acceptForms(app);
}

/** Adds the routes, and what only the server that clients reach has: batches, and a drain. */
function addRoutes(
  app: FastifyInstance,
  context: ServerContext,
  work: Work,
  routes: readonly Route[],
): ChairliftServer {
  endOnClose(app, context, work);
  app.register(async (all) => registerRoutes(all, context, routes));
  return Object.assign(app, {
    async startBackground() {
      await Promise.all([work.runner?.start(), work.background?.start()]);
    },
    drain: (limitMs: number) => drain(context, work, limitMs),
  });
}

function makeContext(deps: ServerDeps): ServerContext {
  const { settings, version, upstreams } = deps;
  const pool = upstreams === undefined ? deps.pool : new UpstreamPool(deps.pool, upstreams);
  const feed = new RequestFeed();
  const nowMs = () => performance.now();
  const health = new HealthCheck(pool, settings.stallMs, nowMs);
  feed.subscribe(({ kind, ...finished }) => deps.logger.info(finished, kind));
  const activity = new Activity();
  const admission = new Admission(settings, nowMs);
  const traces = new RequestTraces(nowMs);
  const latencies = { firstToken: new SlidingPercentiles(), betweenTokens: new SlidingPercentiles() };
  return {
    ...deps,
    pool,
    ...latencies,
    history: new History(latencies),
    refusals: new Refusals(),
    feed,
    activity,
    admission,
    traces,
    live: new LiveFeed({
      version,
      pool,
      activity,
      admission,
      traces,
      ...latencies,
      onProblem: (error) => deps.logger.error({ err: error }, 'live'),
    }),
    encoders: new EncodeWorkers(),
    pictures: new PictureWorkers(),
    grammars: new AnswerGrammars(),
    health,
    readiness: new Readiness(pool, health),
    metrics: new Metrics(pool, deps.settings, {
      control: deps.fleet,
      clockSkewMs: deps.clockSkewMs,
      spanCounts: deps.spanCounts,
    }),
    typicalAnswer: new TypicalAnswer(),
    runningPulls: new Set(),
    createdModels: new CreatedModels(deps.downloads?.folder),
    defaultAdapters: new DefaultAdapters(),
  };
}

function addHooks(app: FastifyInstance, { activity, metrics, settings }: ServerContext): void {
  app.decorateRequest('caller', undefined);
  app.decorateRequest('arrivedMs', 0);
  app.addHook('onRequest', async (request, reply) => {
    request.arrivedMs = performance.now();
    const { idHeader } = request.routeOptions.config;
    for (const name of ['x-request-id', ...(idHeader === undefined ? [] : [idHeader])]) {
      reply.header(name, request.id);
    }
    if (request.headers.host === undefined && request.raw.httpVersion === '1.1') throw missingHost();
    // The client should send its next request to another server.
    if (activity.draining) reply.header('connection', 'close');
    const asked = allowOrigin(request, reply, settings.corsOrigins);
    if (asked !== undefined) return asked;
    // Both are refused before the body is read.
    if (request.is404) return unknownUrl(request, reply);
    refuseForeignPage(request, settings.corsOrigins);
  });
  app.addHook('onResponse', async (request, reply) => {
    metrics.responded(reply.raw.statusCode);
    const { method, url, ip: address } = request;
    request.log.debug(
      { method, url, address, status: reply.raw.statusCode, ms: reply.elapsedTime },
      'response',
    );
  });
}

/** What runs without a client that waits. */
interface Work {
  readonly runner: BatchRunner | undefined;
  readonly background: BackgroundResponses | undefined;
}

function makeWork(app: FastifyInstance, context: ServerContext): Work {
  return { runner: makeRunner(app, context), background: makeBackground(app, context) };
}

function makeRunner(app: FastifyInstance, context: ServerContext): BatchRunner | undefined {
  const { batches } = context;
  if (batches === undefined) return undefined;
  const server = new LineServer(makeApp({ ...context, tls: undefined }), context);
  app.addHook('onClose', () => server.close());
  return new BatchRunner(context, batches, server);
}

function makeBackground(app: FastifyInstance, context: ServerContext): BackgroundResponses | undefined {
  const { background, responses } = context;
  if (background === undefined || responses === undefined) return undefined;
  const own = makeApp({ ...context, tls: undefined });
  app.addHook('onClose', () => own.close());
  return new BackgroundResponses(own, context, background);
}

async function drain(
  { activity, logger }: ServerContext,
  { runner, background }: Work,
  limitMs: number,
): Promise<void> {
  runner?.stop();
  background?.stop();
  if (!(await activity.drain(limitMs))) logger.error('requests were ended, and go on all the same');
  await Promise.all([runner?.close(), background?.close()]);
}

/** A server that was not drained ends its requests at once. */
function endOnClose(app: FastifyInstance, context: ServerContext, { runner, background }: Work): void {
  const { activity, encoders, grammars, pictures, upstreams } = context;
  app.addHook('preClose', async () => {
    runner?.stop();
    background?.stop();
    await activity.drain(0);
  });
  cutOffOnClose(app);
  app.addHook('onClose', async () => {
    upstreams?.close();
    await Promise.all([encoders.close(), pictures.close(), grammars.close()]);
  });
}

/** Neither a client that does not read its answer nor one that has sent nothing yet must keep the server from closing. */
function cutOffOnClose(app: FastifyInstance): void {
  const connections = new Set<Socket>();
  app.server.on('connection', (socket) => {
    connections.add(socket);
    socket.once('close', () => connections.delete(socket));
  });
  app.addHook('preClose', async () => {
    // Node closes connections that wait for their next request, but not those that wait for their first one.
    for (const socket of connections) if (socket.bytesRead === 0) socket.destroy();
    // Node's closeAllConnections would leave out those whose TLS handshake has not ended.
    setTimeout(() => {
      for (const socket of connections) socket.destroy();
    }, LAST_READ_MS).unref();
  });
}

function addErrors(app: FastifyInstance, { metrics, refusals }: ServerContext): void {
  app.setErrorHandler((error, request, reply) => {
    metrics.failed(kindOf(error));
    if (error instanceof ClientLeft) return reply.code(499).send();
    const failure = toApiError(error);
    refusals.add(request, failure);
    if (isServerFault(error)) request.log.error({ err: error }, 'request failed');
    else {
      const { status, code, message: reason } = failure;
      request.log.info({ status, code, reason, address: request.ip }, 'refused');
    }
    const bodyOf = request.routeOptions.config.errorBody ?? ((one: ApiError) => one.body());
    return reply.code(failure.status).headers(failure.headers).send(bodyOf(failure, request));
  });
  app.setNotFoundHandler(unknownUrl);
}

function unknownUrl(request: FastifyRequest, reply: FastifyReply): FastifyReply {
  const message = `there is no ${request.method} ${request.url.split('?')[0]}; /docs lists what there is`;
  return reply.code(404).send(new ApiError(404, message, { code: 'unknown_url' }).body());
}

function missingHost(): ApiError {
  const message = 'a request of HTTP/1.1 needs the header Host: the name or address that it was sent to';
  return new ApiError(400, message, { code: 'missing_host', headers: { connection: 'close' } });
}

/** A client's own id is used where it is short and has no unusual characters. */
function requestId(given: string | string[] | undefined): string {
  if (typeof given === 'string' && given.length <= LONGEST_ID && /^[\w.:-]+$/.test(given)) return given;
  return `req_${randomBytes(12).toString('hex')}`;
}
