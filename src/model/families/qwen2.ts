// Qwen 2 and 2.5: Llama's shape with biases on q, k and v, and windows over the upper layers where asked for.

import {
  type Architecture,
  activationOf,
  type LayerTraits,
  type ModelSource,
  slidingLayers,
  windowOf,
} from '../architecture.ts';
import { optionalCount, optionalFlag } from '../config.ts';
import { ropeOf } from '../rope-parameters.ts';

export const qwen2: Architecture = {
  name: 'qwen2',
  modelTypes: ['qwen2'],
  ggufNames: ['qwen2'],
  defaults: {
    max_position_embeddings: 32_768,
    rms_norm_eps: 1e-6,
    sliding_window: 4096,
    max_window_layers: 28,
  },
  traits(source) {
    const { config, sizes } = source;
    return {
      ropes: [ropeOf(config, sizes)],
      layers: upperWindowLayers(source),
      activation: activationOf(config, 'hidden_act', 'silu'),
      attentionScale: sizes.headSize ** -0.5,
      queryKeyValueBias: true,
    };
  },
};

/** Layers from `max_window_layers` on see a window, where `use_sliding_window` says so. */
export function upperWindowLayers(source: ModelSource): LayerTraits[] {
  const { config } = source;
  const window = optionalFlag(config, 'use_sliding_window') === true ? windowOf(config) : undefined;
  const firstWindowed = optionalCount(config, 'max_window_layers');
  const sliding = slidingLayers(source, (index) => index >= (firstWindowed ?? Number.POSITIVE_INFINITY));
  return sliding.map((slides) => ({ rope: 0, window: slides ? window : undefined }));
}
