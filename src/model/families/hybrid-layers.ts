// Which layers of a hybrid are attention, and which are not.

import type { LayerTraits, ModelSource } from '../architecture.ts';
import { configError, fieldOf } from '../config.ts';

const attentions: readonly unknown[] = ['full_attention', 'attention'];

/** By the file's own list, or by the architecture's rule. */
export function hybridLayers(
  { config, sizes }: ModelSource,
  { attention, other }: { readonly attention: LayerTraits; readonly other: LayerTraits },
  rule?: (index: number) => boolean,
): LayerTraits[] {
  const types = fieldOf(config, 'layer_types');
  if (Array.isArray(types) && types.length === sizes.layerCount) {
    return types.map((type) => (attentions.includes(type) ? attention : other));
  }
  if (types === undefined && rule !== undefined) {
    return Array.from({ length: sizes.layerCount }, (_, index) => (rule(index) ? attention : other));
  }
  throw configError(
    config,
    'layer_types',
    `must name the kind of each of the ${sizes.layerCount} layers`,
    'Use a model of a supported kind, or correct the field.',
  );
}
