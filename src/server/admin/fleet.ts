// /admin/fleet: the nodes of a fleet, what they do, and what is wanted of them. Only with an admin key, at any gateway.

import type { FastifyInstance } from 'fastify';
import { z } from 'zod';
import type { ServerContext } from '../context.ts';
import { ApiError } from '../http/errors.ts';
import { type BodyRules, parseBody } from '../http/parse-body.ts';

/** The contract of a fleet's control; a refusal says why nothing was done. */
export interface Fleet {
  view(): Promise<object>;
  place(placement: {
    readonly model: string;
    readonly replicas: number;
    readonly nodes: readonly string[];
  }): Promise<string | undefined>;
  drain(node: string, on: boolean): Promise<string | undefined>;
}

export const placementSchema = z.object({
  model: z.string().meta({ description: "A model's name." }),
  replicas: z.int().min(0).max(10_000).meta({ description: 'Workers that have it loaded; 0 wants none.' }),
  nodes: z.array(z.string()).optional().meta({ description: 'Workers to take before any other.' }),
});

export const drainSchema = z.object({
  node: z.string().meta({ description: "A worker's name." }),
  on: z.boolean().optional().meta({ description: 'False lets it take requests again. Default true.' }),
});

const placementRules: BodyRules<typeof placementSchema> = {
  schema: placementSchema,
  noOps: [],
  refused: {},
};
const drainRules: BodyRules<typeof drainSchema> = { schema: drainSchema, noOps: [], refused: {} };

export function fleetRoutes(app: FastifyInstance, { fleet }: ServerContext): void {
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
  app.get('/fleet', async () => joined().view());
  app.post('/fleet/place', async (request) => {
    const { model, replicas, nodes = [] } = parseBody(placementRules, request.body).body;
    return done(await joined().place({ model, replicas, nodes }));
  });
  app.post('/fleet/drain', async (request) => {
    const { node, on = true } = parseBody(drainRules, request.body).body;
    return done(await joined().drain(node, on));
  });
}
