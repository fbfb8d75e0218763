// GLM-4.5 and later: experts chosen by sigmoid scores and a bias for the choice alone, beside one for every row.

import { type Architecture, activationOf, alikeLayers } from '../architecture.ts';
import { optionalFlag } from '../config.ts';
import { expertTraits, withExperts } from '../expert-traits.ts';
import { ropeOf } from '../rope-parameters.ts';
import { sharedExpertsNames } from '../tensor-names.ts';

export const glm4Moe: Architecture = {
  name: 'glm4moe',
  modelTypes: ['glm4_moe'],
  ggufNames: ['glm4moe'],
  defaults: {
    num_key_value_heads: 8,
    max_position_embeddings: 131_072,
    rms_norm_eps: 1e-5,
    partial_rotary_factor: 0.5,
    moe_intermediate_size: 1408,
    n_routed_experts: 128,
    num_experts_per_tok: 8,
    n_shared_experts: 1,
    first_k_dense_replace: 1,
    n_group: 1,
    topk_group: 1,
  },
  ggufDefaults: { norm_topk_prob: false },
  traits(source) {
    const { config, sizes } = source;
    return {
      ropes: [ropeOf(config, sizes)],
      layers: withExperts(source, alikeLayers(sizes)),
      activation: activationOf(config, 'hidden_act', 'silu'),
      attentionScale: sizes.headSize ** -0.5,
      ...(optionalFlag(config, 'use_qk_norm') ? { queryKeyNorm: 'head' } : {}),
      queryKeyValueBias: optionalFlag(config, 'attention_bias') ?? false,
      experts: {
        ...expertTraits(source, { score: 'sigmoid', normalized: true, groups: 'best-two' }),
        routingBias: true,
      },
      names: { 'hugging-face': sharedExpertsNames, gguf: { ffnNorm: 'post_attention_norm' } },
    };
  },
};
