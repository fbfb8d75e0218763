// Finds and acquires models by the names that clients use.

import type { ModelEntry, ModelLease, ModelPool } from '../../pool/model-pool.ts';
import { referenceIn, referenceName } from '../../pool/model-reference.ts';
import { isFrom } from '../../pool/named-models.ts';
import { orAbort } from '../../runtime/timers.ts';
import { acquireError, modelNotFound, noModels } from '../http/errors.ts';

/** The default model's name in every server, unless another model has it. */
const DEFAULT = 'default';
/** An alias for every name that no model has. */
const ANY = '*';

/** The default model, the first one, where no name is given. The entry's name is used everywhere after this. */
export function findEntry(pool: ModelPool, name: string | undefined): ModelEntry {
  const entries = pool.list();
  const entry =
    name === undefined
      ? defaultEntry(entries)
      : (named(entries, name) ?? fromHub(entries, name) ?? otherwise(entries, name));
  if (entry !== undefined) return entry;
  throw defaultEntry(entries) === undefined ? noModels() : modelNotFound(name ?? DEFAULT);
}

/** A model of an upstream is never meant by a request that names none. */
function defaultEntry(entries: readonly ModelEntry[]): ModelEntry | undefined {
  return entries.find(({ upstream }) => upstream === undefined);
}

export function isDefault(pool: ModelPool, { name }: ModelEntry): boolean {
  return defaultEntry(pool.list())?.name === name;
}

export function named(entries: readonly ModelEntry[], name: string): ModelEntry | undefined {
  return entries.find((one) => one.name === name || one.aliases.includes(name));
}

/** The model that came from the repository of that name, where it is the only one; `hf:` and `hf.co/` may precede it. */
export function fromHub(entries: readonly ModelEntry[], name: string): ModelEntry | undefined {
  const reference = referenceIn(name);
  if (reference === undefined) return undefined;
  // A gateway knows its workers' models by name alone.
  const same = named(entries, referenceName(reference));
  if (same !== undefined) return same;
  const found = entries.filter((one) => one.adapterOf === undefined && isFrom(reference, one.path));
  return found.length === 1 ? found[0] : undefined;
}

/** The model that serves a name which no model has. */
export function otherwise(entries: readonly ModelEntry[], name: string): ModelEntry | undefined {
  return name === DEFAULT ? defaultEntry(entries) : named(entries, ANY);
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
