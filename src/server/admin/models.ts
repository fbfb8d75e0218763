// /admin/models: lists models with their state, loads and unloads them.

import { existsSync } from 'node:fs';
import { join } from 'node:path';
import type { FastifyRequest } from 'fastify';
import { z } from 'zod';
import { ModelCards } from '../../pool/model-card.ts';
import { weightsFit } from '../../pool/model-memory.ts';
import type { ModelEntry, ModelPool } from '../../pool/model-pool.ts';
import type { ModelOnDisk } from '../../pool/model-registry.ts';
import { liesIn } from '../../pool/remove-model.ts';
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
  /** Why it cannot be served. */
  readonly problem?: string;
  /** Of one that cannot be described. */
  readonly sizeBytes?: number;
  /** Whether its files may be removed from here. */
  readonly isDeletable: boolean;
}

/** Those that cannot be served come last. */
async function listed(context: ServerContext, cards: ModelCards): Promise<ListedModel[]> {
  const { pool } = context;
  const models: ListedModel[] = [];
  for (const entry of pool.list()) {
    const isDeletable = canDelete(context, entry);
    models.push({ ...entry, ...(await describe(entry, pool, cards)), isDeletable });
  }
  return [...models, ...brokenModelsOf(context).map((model) => brokenEntry(context, model))];
}

/** One that is in use stays in the pool, though its files were damaged meanwhile; one that is being pulled is not broken. */
export function brokenModelsOf({
  pool,
  brokenModels,
  downloads,
  runningPulls,
}: ServerContext): readonly ModelOnDisk[] {
  const served = new Set(pool.list().map(({ path }) => path));
  const pulled = downloads === undefined ? [] : [...runningPulls].map((one) => join(downloads.folder, one));
  const isPulled = (path: string) => pulled.some((folder) => path === folder || liesIn(folder, path));
  return (brokenModels?.() ?? []).filter(({ path }) => !served.has(path) && !isPulled(path));
}

function brokenEntry(context: ServerContext, model: ModelOnDisk): ListedModel {
  const { name, path, createdSeconds, sizeBytes, problem = 'its files cannot be read' } = model;
  const entry = { name, path, createdSeconds, aliases: [], state: 'failed', pinned: false, busy: 0 } as const;
  return { ...entry, sizeBytes, problem, isDeletable: canDelete(context, entry) };
}

/** Only what lies in the models folder. */
export function canDelete(
  { downloads }: Pick<ServerContext, 'downloads'>,
  { path, adapterOf, upstream }: Pick<ModelEntry, 'path' | 'adapterOf' | 'upstream'>,
): boolean {
  const hasFiles = adapterOf === undefined && upstream === undefined;
  return downloads !== undefined && hasFiles && liesIn(downloads.folder, path);
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
      fits: weightsFit(sizeBytes, memoryBytes),
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
