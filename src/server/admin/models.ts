// /admin/models: lists models with their state, loads and unloads them.

import type { FastifyRequest } from 'fastify';
import { z } from 'zod';
import type { ServerContext } from '../context.ts';
import { ApiError, acquireError } from '../http/errors.ts';
import { readExactBody, rulesFor } from '../http/parse-body.ts';
import { findEntry } from '../request/find-model.ts';
import type { Route } from '../route.ts';

export const modelNameSchema = z.object({ model: z.string() });

export function adminModelRoutes(context: ServerContext): readonly Route[] {
  return [
    {
      method: 'GET',
      url: '/admin/models',
      access: 'admin',
      summary: 'Models with their state',
      handler: async () => ({ object: 'list', data: context.pool.list() }),
    },
    {
      method: 'POST',
      url: '/admin/models/load',
      access: 'admin',
      summary: 'Load a model',
      body: modelNameSchema,
      handler: (request) => load(context, request),
    },
    {
      method: 'POST',
      url: '/admin/models/unload',
      access: 'admin',
      summary: 'Unload a model',
      body: modelNameSchema,
      handler: (request) => unload(context, request),
    },
  ];
}

export async function load({ pool }: ServerContext, request: FastifyRequest): Promise<object> {
  const { model } = readExactBody(rulesFor(modelNameSchema), request);
  const { name } = findEntry(pool, model);
  const result = await pool.load(name);
  if (!result.ok) throw acquireError(result.failure, result.message, name);
  result.lease.release();
  return findEntry(pool, name);
}

export async function unload({ pool }: ServerContext, request: FastifyRequest): Promise<object> {
  const { model } = readExactBody(rulesFor(modelNameSchema), request);
  // Read before the unload: a model whose file is gone leaves the list together with its engine.
  const entry = findEntry(pool, model);
  const { name } = entry;
  const gone = { memoryBytes: undefined, computedBy: undefined, expiresMs: undefined };
  if (await pool.unload(name)) return { ...entry, ...gone, state: 'unloaded', busy: 0 };
  throw new ApiError(409, `the model '${name}' is in use; try again later`, { code: 'model_busy' });
}
