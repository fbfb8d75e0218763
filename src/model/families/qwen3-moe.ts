// Qwen 3 with experts: Qwen 3's attention, and a choice of small feed-forwards in place of one.

import { type Architecture, activationOf, biasesOf } from '../architecture.ts';
import { expertTraits, withExperts } from '../expert-traits.ts';
import { ropeOf } from '../rope-parameters.ts';
import { upperWindowLayers } from './qwen2.ts';

export const qwen3Moe: Architecture = {
  name: 'qwen3moe',
  modelTypes: ['qwen3_moe'],
  ggufNames: ['qwen3moe'],
  defaults: { head_dim: 128, rms_norm_eps: 1e-6, max_window_layers: 28, norm_topk_prob: false },
  traits(source) {
    const { config, sizes } = source;
    return {
      ropes: [ropeOf(config, sizes)],
      layers: withExperts(source, upperWindowLayers(source)),
      activation: activationOf(config, 'hidden_act', 'silu'),
      attentionScale: sizes.headSize ** -0.5,
      queryKeyNorm: 'head',
      ...biasesOf(config),
      // GGUF files do not say that the weights of chosen experts sum to one.
      experts: expertTraits(source, { score: 'softmax', normalized: true }),
    };
  },
};
