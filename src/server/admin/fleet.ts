// /admin/fleet: lists the nodes of a fleet, places models and drains workers, at any gateway.

import { z } from 'zod';
import type { ServerContext } from '../context.ts';
import { ApiError, badRequest } from '../http/errors.ts';
import { parseBody, rulesFor } from '../http/parse-body.ts';
import type { Route } from '../route.ts';

const placementSchema = z.object({
  model: z.string().meta({ description: "A model's name." }),
  replicas: z.int().min(0).max(10_000).meta({ description: 'Workers that have it loaded; 0 wants none.' }),
  nodes: z.array(z.string()).optional().meta({ description: 'Workers to take before any other.' }),
});

const drainSchema = z.object({
  node: z.string().meta({ description: "A worker's name." }),
  on: z.boolean().optional().meta({ description: 'False lets it take requests again. Default true.' }),
});

const LISTED_WORKERS = 16;
const MOST_LISTED_WORKERS = 10_000;

function limitOf({ limit = LISTED_WORKERS }: Readonly<Record<string, unknown>>): number {
  const count = Number(limit);
  if (Number.isInteger(count) && count >= 0 && count <= MOST_LISTED_WORKERS) return count;
  throw badRequest('limit', `must be a whole number from 0 to ${MOST_LISTED_WORKERS}`);
}

export function fleetRoutes({ fleet }: ServerContext): readonly Route[] {
  const joined = () => {
    if (fleet !== undefined) return fleet;
    throw new ApiError(501, 'this server is no gateway of a fleet; --join without --worker makes it one', {
      code: 'no_fleet',
    });
  };
  const done = (refusal: string | undefined) => {
    if (refusal !== undefined) throw new ApiError(409, refusal, { code: 'not_possible' });
    return { ok: true };
  };
  return [
    {
      method: 'GET',
      url: '/admin/fleet',
      access: 'admin',
      summary: 'Nodes of the fleet, their models and load',
      handler: async () => joined().view(),
    },
    {
      method: 'GET',
      url: '/admin/fleet/work',
      access: 'admin',
      summary: "Steps and blocks of the fleet's workers",
      description: '`limit`: how many workers are listed, the busiest first; 16 where it is not given.',
      handler: async ({ query }) => joined().work(limitOf(query as Readonly<Record<string, unknown>>)),
    },
    {
      method: 'POST',
      url: '/admin/fleet/place',
      access: 'admin',
      summary: 'Say on how many workers a model is loaded',
      body: placementSchema,
      handler: async (request) => {
        const { model, replicas, nodes = [] } = parseBody(rulesFor(placementSchema), request.body).body;
        return done(await joined().place({ model, replicas, nodes }));
      },
    },
    {
      method: 'POST',
      url: '/admin/fleet/drain',
      access: 'admin',
      summary: 'Have a worker take nothing new',
      body: drainSchema,
      handler: async (request) => {
        const { node, on = true } = parseBody(rulesFor(drainSchema), request.body).body;
        return done(await joined().drain(node, on));
      },
    },
  ];
}
