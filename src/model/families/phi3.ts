// Phi 3 and 4-mini: Llama's shape with q, k, v in one tensor, gate and up in another, and longrope.

import { activationOf, windowOf } from '../layer-config.ts';
import { preNorm } from '../layer-shapes.ts';
import { attention } from '../layers/attention.ts';
import { mlp } from '../layers/mlp.ts';
import { type Architecture, ModelBuilder } from '../model-builder.ts';
import { ropeOf } from '../rope-parameters.ts';

export const phi3: Architecture = {
  name: 'phi3',
  modelTypes: ['phi3'],
  ggufNames: ['phi3'],
  defaults: { rms_norm_eps: 1e-5, max_position_embeddings: 4096, original_max_position_embeddings: 4096 },
  build(source) {
    const { config, sizes } = source;
    const model = new ModelBuilder(source);
    const rope = model.rope(ropeOf(config, sizes));
    const window = windowOf(config);
    const activation = activationOf(config);
    return model.spec({
      layers: (layer) =>
        preNorm(
          layer,
          attention(layer, { rope, window, fused: true }),
          mlp(layer, { activation, fused: true }),
        ),
    });
  },
};
