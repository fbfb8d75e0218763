// Models by the names clients use.

import type { ModelEntry, ModelLease, ModelPool } from '../pool/model-pool.ts';
import { orAbort } from './activity.ts';
import { acquireError, modelNotFound } from './errors.ts';

export function findEntry(pool: ModelPool, name: string): ModelEntry {
  const entry = pool.list().find((one) => one.name === name || one.aliases.includes(name));
  if (entry === undefined) throw modelNotFound(name);
  return entry;
}

/** Waits until the model is loaded, the default one without a name; who leaves before that holds nothing. */
export async function acquireModel(
  pool: ModelPool,
  name: string | undefined,
  signal: AbortSignal,
): Promise<ModelLease> {
  const result = await orAbort(pool.acquire(name), signal, (late) => {
    if (late.ok) late.lease.release();
  });
  if (!result.ok) throw acquireError(result.failure, result.message, name);
  return result.lease;
}
