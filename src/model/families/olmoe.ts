// OLMoE: experts, and norms over all heads of q and k together.

import { type Architecture, activationOf, alikeLayers, biasesOf } from '../architecture.ts';
import { configError, fieldOf } from '../config.ts';
import { expertTraits, withExperts } from '../expert-traits.ts';
import { ropeOf } from '../rope-parameters.ts';

export const olmoe: Architecture = {
  name: 'olmoe',
  modelTypes: ['olmoe'],
  ggufNames: ['olmoe'],
  defaults: { max_position_embeddings: 4096, rms_norm_eps: 1e-5, num_experts: 64, num_experts_per_tok: 8 },
  traits(source) {
    const { config, sizes } = source;
    if (fieldOf(config, 'clip_qkv') !== undefined) {
      const problem = 'queries, keys and values that are clipped are not supported';
      throw configError(config, 'clip_qkv', problem, 'Use a model that does not clip them.');
    }
    return {
      ropes: [ropeOf(config, sizes)],
      layers: withExperts(source, alikeLayers(sizes)),
      activation: activationOf(config, 'hidden_act', 'silu'),
      attentionScale: sizes.headSize ** -0.5,
      queryKeyNorm: 'all',
      ...biasesOf(config),
      experts: expertTraits(source, { score: 'softmax', normalized: false }),
    };
  },
};
