// OLMoE: experts, and norms over all heads of q and k together.

import { configError, fieldOf } from '../config.ts';
import { activationOf, biasesOf } from '../layer-config.ts';
import { preNorm } from '../layer-shapes.ts';
import { attention } from '../layers/attention.ts';
import { mlpOrMoe } from '../layers/moe.ts';
import { type Architecture, ModelBuilder } from '../model-builder.ts';
import { moeOptions } from '../moe-config.ts';
import { ropeOf } from '../rope-parameters.ts';

export const olmoe: Architecture = {
  name: 'olmoe',
  modelTypes: ['olmoe'],
  ggufNames: ['olmoe'],
  defaults: { max_position_embeddings: 4096, rms_norm_eps: 1e-5, num_experts: 64, num_experts_per_tok: 8 },
  build(source) {
    const { config, sizes } = source;
    if (fieldOf(config, 'clip_qkv') !== undefined) {
      const problem = 'queries, keys and values that are clipped are not supported';
      throw configError(config, 'clip_qkv', problem, 'Use a model that does not clip them.');
    }
    const model = new ModelBuilder(source);
    const rope = model.rope(ropeOf(config, sizes));
    const activation = activationOf(config);
    const biases = biasesOf(config);
    const moe = moeOptions(source, { score: 'softmax', normalized: false });
    return model.spec({
      layers: (layer) =>
        preNorm(
          layer,
          attention(layer, { rope, queryKeyNorm: 'all', ...biases.attention }),
          mlpOrMoe(layer, { activation, ...biases.mlp }, moe),
        ),
    });
  },
};
