// Gemma 2: norms before and after each branch, soft caps on attention and logits, a window over every other layer.

import { type Architecture, mixedLayers, windowOf } from '../architecture.ts';
import { ropeOf } from '../rope-parameters.ts';
import { gemmaAttentionScale, gemmaTraits } from './gemma-traits.ts';

const caps = { attn_logit_softcapping: 50, final_logit_softcapping: 30, sliding_window: 4096 };

export const gemma2: Architecture = {
  name: 'gemma2',
  modelTypes: ['gemma2'],
  ggufNames: ['gemma2'],
  defaults: {
    ...caps,
    num_key_value_heads: 4,
    head_dim: 256,
    max_position_embeddings: 8192,
    rms_norm_eps: 1e-6,
    query_pre_attn_scalar: 256,
    tie_word_embeddings: true,
  },
  ggufDefaults: caps,
  traits(source) {
    const { config, sizes } = source;
    const sliding = { rope: 0, window: windowOf(config) };
    return {
      ...gemmaTraits(source),
      ropes: [ropeOf(config, sizes)],
      layers: mixedLayers(source, 2, { sliding, full: { rope: 0 } }),
      attentionScale: gemmaAttentionScale(source, 46),
    };
  },
};
