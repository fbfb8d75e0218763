// /admin/*: keys, models, the fleet, numbers, events and a benchmark. All of it needs an admin key.

import type { FastifyRequest } from 'fastify';
import { messageOf } from '../../runtime/error-message.ts';
import { within } from '../../runtime/timers.ts';
import { StoreError } from '../../store/database.ts';
import type { ServerContext } from '../context.ts';
import { ApiError, badRequest } from '../http/errors.ts';
import type { Route } from '../route.ts';
import { benchRoute } from './bench.ts';
import { eventsRoute } from './events.ts';
import { fleetRoutes } from './fleet.ts';
import { keyRoutes } from './keys.ts';
import { adminModelRoutes } from './models.ts';

const STATS_TIMEOUT_MS = 1000;

export function adminRoutes(context: ServerContext): readonly Route[] {
  const routes: readonly Route[] = [
    ...keyRoutes(context),
    ...adminModelRoutes(context),
    ...fleetRoutes(context),
    {
      method: 'GET',
      url: '/admin/stats',
      access: 'admin',
      summary: 'What every engine does now',
      handler: () => stats(context),
    },
    {
      method: 'GET',
      url: '/admin/usage',
      access: 'admin',
      summary: 'Usage by key and day; from and to are days',
      handler: (request) => usage(context, request),
    },
    eventsRoute(context),
    benchRoute(context),
  ];
  return routes.map((route) => ({ ...route, explainError: explainStoreError }));
}

/** The message of a StoreError names the database, which only administrators may see. */
function explainStoreError(error: unknown): unknown {
  if (!(error instanceof StoreError)) return error;
  const { message } = error;
  return new ApiError(503, message, { code: 'store_unavailable', headers: { 'retry-after': '5' } });
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
  const fromDay = dayOf('from', from);
  const toDay = dayOf('to', to);
  const rows = await store.report({
    ...(fromDay === undefined ? {} : { fromDay }),
    ...(toDay === undefined ? {} : { toDay }),
  });
  return { object: 'list', data: rows };
}

function dayOf(name: string, value: unknown): string | undefined {
  if (value === undefined) return undefined;
  if (typeof value === 'string' && /^\d{4}-\d\d-\d\d$/.test(value)) return value;
  throw badRequest(name, 'must be a day, as in 2026-01-31');
}
