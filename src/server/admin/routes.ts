// /admin/*: keys, models, batches, settings, the fleet, numbers, events and a benchmark. All of it needs an admin key.

import { messageOf } from '../../runtime/error-message.ts';
import { within } from '../../runtime/timers.ts';
import { StoreError } from '../../store/database.ts';
import type { BatchRunner } from '../batches/batch-runner.ts';
import type { ServerContext } from '../context.ts';
import { ApiError } from '../http/errors.ts';
import { daysOf, usageStoreOf } from '../page/usage.ts';
import type { Route } from '../route.ts';
import { adminBatchRoutes } from './batches.ts';
import { benchRoute } from './bench.ts';
import { eventsRoute } from './events.ts';
import { fleetRoutes } from './fleet.ts';
import { hubRoutes } from './hub.ts';
import { keyRoutes } from './keys.ts';
import { adminModelRoutes } from './models.ts';
import { settingsRoute } from './settings.ts';

const STATS_TIMEOUT_MS = 1000;

export function adminRoutes(
  context: ServerContext,
  runner: Pick<BatchRunner, 'wake'> | undefined,
): readonly Route[] {
  const routes: readonly Route[] = [
    ...keyRoutes(context),
    ...adminModelRoutes(context),
    ...adminBatchRoutes(context, runner),
    ...hubRoutes(context),
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
      handler: async (request) => ({
        object: 'list',
        data: await usageStoreOf(context).report(daysOf(request)),
      }),
    },
    settingsRoute(context),
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
