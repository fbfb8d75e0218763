// Finds and acquires models by the names that clients use.

import type { ModelEntry, ModelLease, ModelPool } from '../../pool/model-pool.ts';
import { orAbort } from '../../runtime/timers.ts';
import { acquireError, modelNotFound, noModels } from '../http/errors.ts';

/** The default model, the first one, where no name is given. The entry's name is used everywhere after this. */
export function findEntry(pool: ModelPool, name: string | undefined): ModelEntry {
  const isMeant = (one: ModelEntry) => name === undefined || one.name === name || one.aliases.includes(name);
  const entries = pool.list();
  const entry = entries.find(isMeant);
  if (entry === undefined) throw entries.length === 0 ? noModels() : modelNotFound(name ?? 'default');
  return entry;
}

/** Waits until the model is loaded; an abort before that leaves no lease. `background`: no client waits for the answer. */
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
