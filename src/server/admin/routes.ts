// /admin/*: keys, models, numbers, and what happens as it happens. Only with an admin key.

import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { z } from 'zod';
import { messageOf } from '../../failure/message-of.ts';
import type { EngineHandle } from '../../pool/engine-handle.ts';
import type { KeyRecord } from '../../store/key-record.ts';
import { TIERS } from '../../store/key-record.ts';
import { StoreError } from '../../store/store-error.ts';
import { within } from '../../time/within.ts';
import type { ServerContext } from '../context.ts';
import { ApiError, acquireError, badRequest } from '../http/errors.ts';
import { LossyStream } from '../http/lossy-stream.ts';
import { type BodyRules, parseBody } from '../http/parse-body.ts';
import { SseStream } from '../http/sse.ts';
import { findEntry } from '../request/find-model.ts';

const STATS_TIMEOUT_MS = 1000;
const LOOK_EVERY_MS = 500;

const limit = z.int().optional();

export const newKeySchema = z.object({
  name: z.string(),
  tier: z.enum(TIERS).optional(),
  admin: z.boolean().optional(),
  requests_per_minute: limit,
  tokens_per_minute: limit,
  max_concurrent: limit,
  daily_tokens: limit,
  kv_share: z.number().optional(),
});

export const modelNameSchema = z.object({ model: z.string() });

const newKeyRules: BodyRules<typeof newKeySchema> = { schema: newKeySchema, noOps: [], refused: {} };
const modelNameRules: BodyRules<typeof modelNameSchema> = { schema: modelNameSchema, noOps: [], refused: {} };

export function adminRoutes(app: FastifyInstance, context: ServerContext): void {
  app.setErrorHandler((error, _request, _reply) => {
    // For the one above, which answers.
    throw error instanceof StoreError ? storeUnavailable(error) : error;
  });
  keyRoutes(app, context);
  modelRoutes(app, context);
  app.get('/stats', async () => stats(context));
  app.get('/usage', async (request) => usage(context, request));
  app.get('/events', (request, reply) => followEvents(context, request, reply));
}

/** Only administrators hear where the database lies. */
function storeUnavailable({ message }: StoreError): ApiError {
  return new ApiError(503, message, { code: 'store_unavailable', headers: { 'retry-after': '5' } });
}

function keyRoutes(app: FastifyInstance, { keyStore }: ServerContext): void {
  const store = () => {
    if (keyStore !== undefined) return keyStore;
    throw new ApiError(501, 'this server keeps no keys', { code: 'no_key_store' });
  };
  app.get('/keys', async () => ({ object: 'list', data: (await store().list()).map(keyOf) }));
  app.post('/keys', async (request, reply) => {
    const { body } = known(parseBody(newKeyRules, request.body));
    const limits = {
      requestsPerMinute: body.requests_per_minute,
      tokensPerMinute: body.tokens_per_minute,
      maxConcurrent: body.max_concurrent,
      dailyTokens: body.daily_tokens,
      kvShare: body.kv_share,
    };
    const { name, tier = 'normal', admin = false } = body;
    const result = await store().createKey({ name, tier, admin, limits }, Date.now());
    if (result.ok) return reply.code(201).send({ ...keyOf(result.record), key: result.key });
    const code = result.problem === 'invalid' ? 'invalid_value' : 'name_taken';
    throw new ApiError(result.problem === 'invalid' ? 400 : 409, result.message, { code });
  });
  app.delete<{ Params: { id: string } }>('/keys/:id', async ({ params }) => {
    const record = await store().revoke(params.id, Date.now());
    if (record !== undefined) return keyOf(record);
    throw new ApiError(404, `there is no live key '${params.id}'`, { code: 'key_not_found' });
  });
}

function modelRoutes(app: FastifyInstance, { pool }: ServerContext): void {
  app.get('/models', async () => ({ object: 'list', data: pool.list() }));
  app.post('/models/load', async (request) => {
    const { body } = known(parseBody(modelNameRules, request.body));
    const { name } = findEntry(pool, body.model);
    const result = await pool.load(name);
    if (!result.ok) throw acquireError(result.failure, result.message, name);
    result.lease.release();
    return findEntry(pool, name);
  });
  app.post('/models/unload', async (request) => {
    const { body } = known(parseBody(modelNameRules, request.body));
    const entry = findEntry(pool, body.model);
    const { name } = entry;
    // Said from what was known before: a model whose file is gone leaves the list with its engine.
    const gone = { memoryBytes: undefined, computedBy: undefined, expiresMs: undefined };
    if (await pool.unload(name)) return { ...entry, ...gone, state: 'unloaded', busy: 0 };
    throw new ApiError(409, `the model '${name}' is in use; try again later`, { code: 'model_busy' });
  });
}

async function stats({ activity, pool, version }: ServerContext): Promise<object> {
  const engines = await Promise.all(
    pool.loaded().map(async ({ name, engine, blockCount, direct }) => {
      const known = { model: name, blockCount, direct };
      try {
        return { ...known, stats: await within(engine.stats(), STATS_TIMEOUT_MS) };
      } catch (error) {
        return { ...known, problem: messageOf(error) };
      }
    }),
  );
  return {
    version,
    draining: activity.draining,
    runningRequests: activity.running,
    models: pool.list(),
    engines,
  };
}

async function usage({ usage: store }: ServerContext, request: FastifyRequest): Promise<object> {
  if (store === undefined) throw new ApiError(501, 'this server keeps no usage', { code: 'no_usage_store' });
  const { from, to } = request.query as Readonly<Record<string, unknown>>;
  const day = (name: string, value: unknown) => {
    if (value === undefined) return undefined;
    if (typeof value === 'string' && /^\d{4}-\d\d-\d\d$/.test(value)) return value;
    throw badRequest(name, 'must be a day, as in 2026-01-31');
  };
  const fromDay = day('from', from);
  const toDay = day('to', to);
  const rows = await store.report({
    ...(fromDay === undefined ? {} : { fromDay }),
    ...(toDay === undefined ? {} : { toDay }),
  });
  return { object: 'list', data: rows };
}

/** Finished requests, and the steps of every engine. A reader too slow for all of them misses some, and is told. */
async function followEvents(
  { activity, feed, pool, settings }: ServerContext,
  _request: FastifyRequest,
  reply: FastifyReply,
): Promise<void> {
  reply.hijack();
  // Gone while its key was looked up: nobody would hear of its leaving again.
  if (reply.raw.destroyed) return;
  const stream = new SseStream(reply.raw, reply.getHeaders(), settings.keepAliveMs);
  // Who reads nothing through two signs of life is not there.
  const events = new LossyStream(reply.raw, stream, 2 * settings.keepAliveMs);
  const watched = new Map<EngineHandle, () => void>();
  const watchLoaded = () => {
    if (activity.draining) return stream.end();
    events.cutOffIfStuck();
    const loaded = new Set(pool.loaded().map(({ engine }) => engine));
    for (const [engine, end] of watched) {
      if (loaded.has(engine)) continue;
      end();
      watched.delete(engine);
    }
    for (const { name, engine } of pool.loaded()) {
      if (watched.has(engine)) continue;
      watched.set(
        engine,
        engine.watch((event) => events.send({ model: name, ...event }, 'step')),
      );
    }
  };
  const endFeed = feed.listen((finished) => events.send(finished, 'request'));
  const timer = setInterval(watchLoaded, LOOK_EVERY_MS).unref();
  reply.raw.once('close', () => {
    clearInterval(timer);
    endFeed();
    for (const end of watched.values()) end();
  });
  events.send({ models: pool.list() }, 'models');
  watchLoaded();
}

/** An administrator's slip is an error, not a warning. */
function known<Parsed extends { readonly unknown: readonly string[] }>(parsed: Parsed): Parsed {
  const [name] = parsed.unknown;
  if (name !== undefined) throw badRequest(name, 'is not a known parameter', 'unknown_parameter');
  return parsed;
}

function keyOf({ id, name, prefix, tier, admin, limits, createdMs, revokedMs }: KeyRecord): object {
  return {
    id,
    object: 'key',
    name,
    prefix,
    tier,
    admin,
    requests_per_minute: limits.requestsPerMinute ?? null,
    tokens_per_minute: limits.tokensPerMinute ?? null,
    max_concurrent: limits.maxConcurrent ?? null,
    daily_tokens: limits.dailyTokens ?? null,
    kv_share: limits.kvShare ?? null,
    created: Math.floor(createdMs / 1000),
    revoked: revokedMs === undefined ? null : Math.floor(revokedMs / 1000),
  };
}
