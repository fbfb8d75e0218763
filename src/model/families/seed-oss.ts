// Seed-OSS: Llama's shape with heads of their own size and biases on q, k and v.

import { biasesOf } from '../layer-config.ts';
import type { Architecture } from '../model-builder.ts';
import { llamaLike } from './llama.ts';

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
    const biases = biasesOf(source.config);
    return llamaLike(source, {
      names: { gguf: { ffnNorm: 'post_attention_norm' } },
      attention: (rope) => ({ rope, ...biases.attention }),
      mlp: biases.mlp,
    });
  },
};
