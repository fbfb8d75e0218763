// LoRA adapters as llama-server numbers them: in the order in which the model was given them. Each is a model of its own name here,
// and is applied wholly or not at all.

import { basename } from 'node:path';
import type { ModelEntry, ModelPool } from '../../pool/model-pool.ts';
import { badRequest } from '../http/errors.ts';
import type { Caller } from '../request/auth.ts';
import { findEntry } from '../request/find-model.ts';

export interface ScaledAdapter {
  readonly id: number;
  readonly scale: number;
}

/** Of the model, also where the name is that of one of its adapters. */
export function adaptersOf(pool: ModelPool, name: string | undefined): readonly ModelEntry[] {
  const { name: found, adapterOf = found } = findEntry(pool, name);
  return pool.list().filter((entry) => entry.adapterOf === adapterOf);
}

/** The name under which the pool has the model with these adapters. */
export function adaptedModel(
  pool: ModelPool,
  name: string | undefined,
  scales: readonly ScaledAdapter[],
): string {
  const { name: found, adapterOf = found } = findEntry(pool, name);
  const adapters = adaptersOf(pool, name);
  const applied = scales.filter(({ scale }) => scale !== 0);
  for (const { id, scale } of scales) {
    if (adapters[id] === undefined) throw badRequest('lora', `there is no adapter ${id}`);
    if (scale !== 0 && scale !== 1) throw badRequest('lora', `${scale} is no possible scale; 0 and 1 are`);
  }
  if (applied.length > 1) throw badRequest('lora', 'several adapters at once are not supported');
  const [one] = applied;
  return one === undefined ? adapterOf : (adapters[one.id] as ModelEntry).name;
}

export function listedAdapters(
  pool: ModelPool,
  name: string | undefined,
  { admin }: Pick<Caller, 'admin'>,
): readonly object[] {
  const { name: found } = findEntry(pool, name);
  return adaptersOf(pool, name).map((entry, id) => ({
    id,
    path: admin ? (entry.adapterPath ?? '') : basename(entry.adapterPath ?? ''),
    name: entry.name,
    scale: entry.name === found ? 1 : 0,
  }));
}
