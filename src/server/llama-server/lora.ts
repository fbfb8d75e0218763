// LoRA adapters as llama-server numbers them: in the order in which the model was given them. Each is a model of its own name here,
// and is applied wholly or not at all.

import { basename } from 'node:path';
import type { ModelEntry, ModelPool } from '../../pool/model-pool.ts';
import { badRequest } from '../http/errors.ts';
import type { Caller } from '../request/auth.ts';
import { findEntry } from '../request/find-model.ts';
import type { DefaultAdapters } from './default-adapters.ts';

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

/** The model that a request gets which says nothing of adapters: one that names an adapter has it. */
export function defaultModel(pool: ModelPool, name: string | undefined, adapters: DefaultAdapters): string {
  const { name: found, adapterOf } = findEntry(pool, name);
  const adapted = adapterOf === undefined ? adapters.of(found) : undefined;
  // It may have been removed meanwhile.
  return pool.list().some((one) => one.name === adapted) ? (adapted as string) : found;
}

/** Throws where these cannot be applied. */
export function setAdapters(
  pool: ModelPool,
  name: string | undefined,
  given: readonly ScaledAdapter[],
  adapters: DefaultAdapters,
): void {
  const { name: found, adapterOf = found } = findEntry(pool, name);
  adapters.set(adapterOf, adaptedModel(pool, adapterOf, given));
}

export function listedAdapters(
  pool: ModelPool,
  name: string | undefined,
  { admin }: Pick<Caller, 'admin'>,
  adapters: DefaultAdapters,
): readonly object[] {
  const found = defaultModel(pool, name, adapters);
  return adaptersOf(pool, name).map((entry, id) => ({
    id,
    path: admin ? (entry.adapterPath ?? '') : basename(entry.adapterPath ?? ''),
    name: entry.name,
    scale: entry.name === found ? 1 : 0,
  }));
}
