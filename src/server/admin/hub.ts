// /admin/hub/models: searches the hub that models are pulled from, and says what of it fits this machine. The server asks the
// hub; the page asks no one but the server.

import { join } from 'node:path';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { type HubFormat, hubFormats, pullableModels, searchHub } from '../../pool/hub-search.ts';
import { weightsFit } from '../../pool/model-memory.ts';
import { PullError, referenceIn } from '../../pool/model-reference.ts';
import type { ModelDownloads, ServerContext } from '../context.ts';
import { ApiError, badRequest } from '../http/errors.ts';
import type { Route } from '../route.ts';

/** What of a repository can be pulled. */
export interface OfferedModel {
  /** What /api/pull takes. */
  readonly model: string;
  readonly quantization?: string;
  readonly sizeBytes: number;
  /** Whether its weights would fit, were no other model loaded. */
  readonly fits: boolean;
  /** Whether it lies in the models folder. */
  readonly here: boolean;
}

const MOST_WORDS = 200;

export function hubRoutes(context: ServerContext): readonly Route[] {
  const common = { method: 'GET', access: 'admin' } as const;
  return [
    {
      ...common,
      url: '/admin/hub/models',
      summary: 'Models on the hub, by words',
      description: '`search`: words of its name. `format`: `gguf`, the default, or `safetensors`.',
      handler: (request, reply) => asking(context, request, reply, search),
    },
    {
      ...common,
      url: '/admin/hub/models/*',
      summary: 'What of a repository on the hub can be pulled, with its size and whether it fits',
      handler: (request, reply) => asking(context, request, reply, offered),
    },
  ];
}

type Ask = (
  context: ServerContext,
  downloads: ModelDownloads,
  request: FastifyRequest,
  signal: AbortSignal,
) => Promise<object>;

async function asking(context: ServerContext, request: FastifyRequest, reply: FastifyReply, ask: Ask) {
  const { activity, downloads, settings } = context;
  if (downloads === undefined)
    throw new ApiError(501, 'this server pulls no models', { code: 'no_downloads' });
  const lifetime = activity.begin(request, reply, settings.requestTimeoutMs);
  try {
    return await ask(context, downloads, request, lifetime.signal);
  } catch (error) {
    throw error instanceof PullError ? new ApiError(502, error.message, { code: 'hub_failed' }) : error;
  } finally {
    lifetime.end();
  }
}

const search: Ask = async ({ pool }, { hub }, { query }, signal) => {
  const { search: given, format = 'gguf' } = query as Readonly<Record<string, unknown>>;
  const words = typeof given === 'string' ? given.trim() : '';
  if (words === '' || words.length > MOST_WORDS)
    throw badRequest('search', `must be words to search for, of at most ${MOST_WORDS} characters`);
  if (!hubFormats.some((known) => known === format))
    throw badRequest('format', `must be one of ${hubFormats.join(', ')}`);
  const data = await searchHub(hub, { words, format: format as HubFormat }, signal);
  return { object: 'list', hub: hub.url, memoryBytes: pool.memoryBytes, data };
};

const offered: Ask = async ({ pool }, { hub, folder }, request, signal) => {
  const id = (request.params as { readonly '*': string })['*'];
  const repository = referenceIn(id, new Map());
  if (repository === undefined || repository.file !== undefined)
    throw badRequest('id', 'must be a repository of the hub, as owner/repo');
  const paths = new Set(pool.list().map(({ path }) => path));
  const { owner, repo } = repository;
  const models = await pullableModels(hub, repository, signal);
  const data = models.map(
    ({ model, quantization, sizeBytes, path }): OfferedModel => ({
      model,
      ...(quantization === undefined ? {} : { quantization }),
      sizeBytes,
      fits: weightsFit(sizeBytes, pool.memoryBytes),
      here: paths.has(join(folder, owner, repo, path)),
    }),
  );
  return { object: 'list', id: `${owner}/${repo}`, memoryBytes: pool.memoryBytes, data };
};
