// Qwen 3 with experts: Qwen 3's attention, and a choice of small feed-forwards in place of one.

import { type Architecture, activationOf, biasesOf } from '../architecture.ts';
import { expertTraits, mixtureOf } from '../expert-traits.ts';
import { ropeOf } from '../rope-parameters.ts';
import { upperWindowLayers } from './qwen2.ts';

export const qwen3Moe: Architecture = {
  name: 'qwen3moe',
  modelTypes: ['qwen3_moe'],
  ggufNames: ['qwen3moe'],
  defaults: {
    head_dim: 128,
    num_key_value_heads: 4,
    max_position_embeddings: 32_768,
    rms_norm_eps: 1e-6,
    sliding_window: 4096,
    max_window_layers: 28,
    num_experts_per_tok: 8,
    moe_intermediate_size: 768,
    norm_topk_prob: false,
  },
  traits(source) {
    const { config, sizes } = source;
    return {
      ropes: [ropeOf(config, sizes)],
      activation: activationOf(config, 'hidden_act', 'silu'),
      attentionScale: sizes.headSize ** -0.5,
      queryKeyNorm: 'head',
      ...biasesOf(config),
      // GGUF files do not say that the weights of chosen experts sum to one.
      ...mixtureOf(source, upperWindowLayers(source), () =>
        expertTraits(source, { score: 'softmax', normalized: true }),
      ),
    };
  },
};
