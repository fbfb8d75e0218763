// Seed-OSS: Llama's shape with heads of their own size and biases on q, k and v.

import { type Architecture, activationOf, alikeLayers, biasesOf } from '../architecture.ts';
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
  traits({ config, sizes }) {
    return {
      ropes: [ropeOf(config, sizes)],
      layers: alikeLayers(sizes),
      activation: activationOf(config, 'hidden_act', 'silu'),
      attentionScale: sizes.headSize ** -0.5,
      ...biasesOf(config),
      names: { gguf: { ffnNorm: 'post_attention_norm' } },
    };
  },
};
