// Layers that read the keys and values of earlier ones.

import type { LayerTraits, ModelSource } from '../architecture.ts';
import { configError, optionalCount } from '../config.ts';

/** The last `num_kv_shared_layers` layers read those of the last layer before that is of their kind. */
export function withSharedCaches(
  { config, sizes }: ModelSource,
  layers: readonly LayerTraits[],
  isAlike: (one: LayerTraits, other: LayerTraits) => boolean,
): LayerTraits[] {
  const shared = optionalCount(config, 'num_kv_shared_layers') ?? 0;
  const first = sizes.layerCount - shared;
  return layers.map((layer, index) => {
    if (index < first) return layer;
    const cacheOf = layers.slice(0, Math.max(0, first)).findLastIndex((earlier) => isAlike(earlier, layer));
    if (cacheOf >= 0) return { ...layer, cacheOf };
    throw configError(
      config,
      'num_kv_shared_layers',
      `leaves layer ${index} no earlier layer of its kind to share keys and values with`,
      'The file is damaged or was converted wrongly; download or convert it again.',
    );
  });
}
