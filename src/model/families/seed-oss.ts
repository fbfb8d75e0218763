// Seed-OSS: Llama's shape with heads of their own size and biases on q, k and v.

import { activationOf, biasesOf } from '../layer-config.ts';
import { preNorm } from '../layer-shapes.ts';
import { attention } from '../layers/attention.ts';
import { mlp } from '../layers/mlp.ts';
import { type Architecture, ModelBuilder } from '../model-builder.ts';
import { ropeOf } from '../rope-parameters.ts';

export const seedOss: Architecture = {
  name: 'seed_oss',
  modelTypes: ['seed_oss'],
  ggufNames: ['seed_oss'],
  defaults: {
    num_key_value_heads: 8,
    head_dim: 128,
    max_position_embeddings: 524_288,
    rms_norm_eps: 1e-6,
    attention_bias: true,
    attention_out_bias: false,
  },
  build(source) {
    const { config, sizes } = source;
    const model = new ModelBuilder(source, { names: { gguf: { ffnNorm: 'post_attention_norm' } } });
    const rope = model.rope(ropeOf(config, sizes));
    const activation = activationOf(config);
    const biases = biasesOf(config);
    return model.spec({
      layers: (layer) =>
        preNorm(
          layer,
          attention(layer, { rope, ...biases.attention }),
          mlp(layer, { activation, ...biases.mlp }),
        ),
    });
  },
};
