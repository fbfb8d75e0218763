// Sizes that some files give as a list, one for each layer.

import type { ModelSource } from './architecture.ts';
import { type Config, configError, fieldOf } from './config.ts';

/** Fields that may be lists, in architectures that say so. */
export type ListField = 'intermediate_size' | 'num_key_value_heads';

const listName = (field: ListField): string => `${field} of layers`;

/** The largest in place of a list, which is kept under a name of its own. */
export function withLayerLists(config: Config, fields: readonly ListField[]): Config {
  const lists: Record<string, unknown> = {};
  for (const field of fields) {
    const value = config.fields[field];
    const list: unknown = ArrayBuffer.isView(value) ? Array.from(value as Uint32Array) : value;
    if (!Array.isArray(list) || !list.every((size) => typeof size === 'number')) continue;
    lists[listName(field)] = list;
    lists[field] = Math.max(...list);
  }
  return { ...config, fields: { ...config.fields, ...lists } };
}

/** The size of each layer; undefined where the file gives one for all. */
export function layerList({ config, sizes }: ModelSource, field: ListField): readonly number[] | undefined {
  const list = fieldOf(config, listName(field));
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
