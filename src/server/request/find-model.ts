// Models by the names clients use.

import { orAbort } from '../../generation/or-abort.ts';
import type { ModelEntry, ModelLease, ModelPool } from '../../pool/model-pool.ts';
import { acquireError, modelNotFound } from '../http/errors.ts';

/** The default model, which is the first, where no name is given: it has one name everywhere behind this. */
export function findEntry(pool: ModelPool, name: string | undefined): ModelEntry {
  const isMeant = (one: ModelEntry) => name === undefined || one.name === name || one.aliases.includes(name);
  const entry = pool.list().find(isMeant);
  if (entry === undefined) throw modelNotFound(name ?? 'default');
  return entry;
}

/** Waits until the model is loaded; who leaves before that holds nothing. `background`: nobody waits for the answer. */
export async function acquireModel(
  pool: ModelPool,
  name: string,
  signal: AbortSignal,
  background = false,
): Promise<ModelLease> {
  const result = await orAbort(pool.acquire(name, { signal, background }), signal, (late) => {
    if (late.ok) late.lease.release();
  });
  if (!result.ok) throw acquireError(result.failure, result.message, name);
  return result.lease;
}
