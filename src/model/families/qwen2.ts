// Qwen 2 and 2.5: Llama's shape with biases on q, k and v, and windows over the upper layers where asked for.

import { optionalCount } from '../config.ts';
import { activationOf, slidingLayers, usedWindowOf } from '../layer-config.ts';
import { preNorm } from '../layer-shapes.ts';
import { attention } from '../layers/attention.ts';
import { mlp } from '../layers/mlp.ts';
import { type Architecture, ModelBuilder } from '../model-builder.ts';
import type { ModelSource } from '../model-source.ts';
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
  build(source) {
    const { config, sizes } = source;
    const model = new ModelBuilder(source);
    const rope = model.rope(ropeOf(config, sizes));
    const windows = upperWindows(source);
    const activation = activationOf(config);
    return model.spec({
      layers: (layer) =>
        preNorm(
          layer,
          attention(layer, { rope, window: windows[layer.index], queryKeyValueBias: true }),
          mlp(layer, { activation }),
        ),
    });
  },
};

/** Layers from `max_window_layers` on see a window, where `use_sliding_window` says so. */
export function upperWindows(source: ModelSource): readonly (number | undefined)[] {
  const { config } = source;
  const window = usedWindowOf(config);
  const first = optionalCount(config, 'max_window_layers') ?? Number.POSITIVE_INFINITY;
  return slidingLayers(source, (index) => index >= first).map((slides) => (slides ? window : undefined));
}
