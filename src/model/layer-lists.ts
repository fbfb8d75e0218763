// Sizes that some files give as a list, one for each layer.

import type { ModelSource } from './architecture.ts';
import { configError, fieldOf } from './config.ts';

type Fields = Readonly<Record<string, unknown>>;

const fields = ['intermediate_size', 'num_key_value_heads'] as const;
type ListField = (typeof fields)[number];

/** The largest in place of a list, which is kept under a name of its own. */
export function withLayerLists(given: Fields): Record<string, unknown> {
  const result: Record<string, unknown> = { ...given };
  for (const field of fields) {
    const value = given[field];
    const list: unknown = ArrayBuffer.isView(value) ? Array.from(value as Uint32Array) : value;
    if (!Array.isArray(list)) continue;
    result[`${field} of layers`] = list;
    result[field] = list.every((size) => typeof size === 'number') ? Math.max(...list) : list;
  }
  return result;
}

/** The size of each layer; undefined where the file gives one for all. */
export function layerList({ config, sizes }: ModelSource, field: ListField): readonly number[] | undefined {
  const list = fieldOf(config, `${field} of layers`);
  if (list === undefined) return undefined;
  const isSize = (size: unknown) => typeof size === 'number' && Number.isInteger(size) && size > 0;
  if (Array.isArray(list) && list.length === sizes.layerCount && list.every(isSize)) return list;
  throw configError(
    config,
    field,
    `must be one whole number, or one for each of the ${sizes.layerCount} layers`,
    'The file is damaged or was converted wrongly; download or convert it again.',
  );
}
