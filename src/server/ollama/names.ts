// Models by the names that clients of Ollama use: `name:tag`, where `latest` is the tag of whatever has none, and
// `hf.co/owner/repo:file` for what was pulled from there.

import type { ModelEntry } from '../../pool/model-pool.ts';
import type { ServerContext } from '../context.ts';
import { ApiError } from '../http/errors.ts';
import { fromHub, named, otherwise } from '../request/find-model.ts';
import type { CreatedModel } from './created-models.ts';

const LATEST = ':latest';

interface ResolvedModel {
  readonly entry: ModelEntry;
  /** What a client has made of it, where the name is of that. */
  readonly created?: CreatedModel;
}

export function resolveModel(context: ServerContext, given: string): ResolvedModel {
  const created = context.createdModels.find(withoutTag(given));
  if (created === undefined) return { entry: servedModel(context, given) };
  const entry = named(context.pool.list(), created.from);
  if (entry !== undefined) return { entry, created };
  const message = `model '${given}' was made from '${created.from}', which is not served any more`;
  throw new ApiError(404, message, { param: 'model', code: 'model_not_found' });
}

export function findModel(context: ServerContext, given: string): ModelEntry {
  return resolveModel(context, given).entry;
}

function servedModel(context: ServerContext, given: string): ModelEntry {
  const found = ownModel(context, given) ?? otherwise(context.pool.list(), withoutTag(given));
  if (found === undefined) throw notFound(given);
  return found;
}

/** As `findModel`, but only a model that has this very name: what is deleted or overwritten must not be another one. */
export function findOwnModel(context: ServerContext, given: string): ModelEntry {
  const found = ownModel(context, given);
  if (found === undefined) throw notFound(given);
  return found;
}

function ownModel({ pool }: ServerContext, given: string): ModelEntry | undefined {
  const models = pool.list();
  const bare = withoutTag(given);
  return named(models, given) ?? named(models, bare) ?? named(models, bare + LATEST) ?? fromHub(models, bare);
}

export function withoutTag(given: string): string {
  return given.endsWith(LATEST) ? given.slice(0, -LATEST.length) : given;
}

function notFound(given: string): ApiError {
  return new ApiError(404, `model '${given}' not found`, { param: 'model', code: 'model_not_found' });
}
