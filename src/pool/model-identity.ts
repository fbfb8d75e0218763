// What makes the KV blocks of a model the same bits, whenever and wherever they were computed: its files and those of its adapters and
// projector, and what of its settings keys and values depend on.

import type { ModelIdentity } from '../engine/tiers/block-keys.ts';
import type { ModelSpec } from '../model/spec.ts';
import { projectorFor } from '../weights/projector-files.ts';
import type { ModelKeys } from './model-keys.ts';
import type { PoolModel } from './model-slots.ts';

export async function identityOf(
  keys: ModelKeys | undefined,
  path: string,
  { ropes, vision }: ModelSpec,
  { adapters = [], projectorPath }: Pick<PoolModel, 'adapters' | 'projectorPath'>,
): Promise<ModelIdentity> {
  if (keys === undefined) throw new Error('nobody knows the content of models');
  const projector = vision && (projectorPath ?? (path.endsWith('.gguf') ? projectorFor(path) : undefined));
  const files = [path, ...(projector === undefined ? [] : [projector])];
  const contents: string[] = [];
  for (const file of files) contents.push(await keys.of(file));
  const own: string[] = [];
  for (const adapter of adapters) own.push(await keys.of(adapter.path));
  // Factors of rotation depend on how long a context may be.
  return { model: JSON.stringify([contents, ropes]), adapters: own };
}
