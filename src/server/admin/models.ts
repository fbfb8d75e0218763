// /admin/models: lists models with their state, loads and unloads them.

import { existsSync } from 'node:fs';
import type { FastifyRequest } from 'fastify';
import { z } from 'zod';
import { ModelCards } from '../../pool/model-card.ts';
import type { ModelEntry, ModelPool } from '../../pool/model-pool.ts';
import { messageOf } from '../../runtime/error-message.ts';
import type { ServerContext } from '../context.ts';
import { ApiError, acquireError } from '../http/errors.ts';
import { readExactBody, rulesFor } from '../http/parse-body.ts';
import { findEntry } from '../request/find-model.ts';
import type { Route } from '../route.ts';

export const modelNameSchema = z.object({ model: z.string() });

/** What there is to know of a model before it is loaded. */
export interface ListedModel extends ModelEntry {
  readonly about?: {
    readonly architecture: string;
    readonly parameters: number;
    readonly quantization: string;
    readonly sizeBytes: number;
    readonly contextLength?: number;
  };
  /** Whether its weights would fit, were no other model loaded. */
  readonly fits?: boolean;
  /** Why its files cannot be read. */
  readonly problem?: string;
}

async function listed({ pool }: ServerContext, cards: ModelCards): Promise<ListedModel[]> {
  const models: ListedModel[] = [];
  for (const entry of pool.list()) models.push({ ...entry, ...(await describe(entry, pool, cards)) });
  return models;
}

async function describe(
  { path, upstream }: ModelEntry,
  { memoryBytes }: Pick<ModelPool, 'memoryBytes'>,
  cards: ModelCards,
): Promise<Pick<ListedModel, 'about' | 'fits' | 'problem'>> {
  // Those of workers of a fleet lie on other machines.
  if (upstream !== undefined || !existsSync(path)) return {};
  try {
    const { architecture, parameters, quantization, sizeBytes, metadata } = await cards.read(path);
    const contextLength = metadata[`${architecture}.context_length`];
    return {
      about: {
        architecture,
        parameters,
        quantization,
        sizeBytes,
        ...(typeof contextLength === 'number' ? { contextLength } : {}),
      },
      fits: sizeBytes <= memoryBytes,
    };
  } catch (error) {
    return { problem: messageOf(error) };
  }
}

export function adminModelRoutes(context: ServerContext): readonly Route[] {
  const cards = new ModelCards();
  return [
    {
      method: 'GET',
      url: '/admin/models',
      access: 'admin',
      summary: 'Models with their state',
      handler: async () => ({ object: 'list', data: await listed(context, cards) }),
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
