// StableLM: layer norms and heads that are rotated in part; the larger ones have a norm for each head of q and k, and
// branches that read the same rows.

import { type Architecture, activationOf, alikeLayers } from '../architecture.ts';
import { optionalFlag } from '../config.ts';
import { ropeOf } from '../rope-parameters.ts';

export const stablelm: Architecture = {
  name: 'stablelm',
  modelTypes: ['stablelm'],
  ggufNames: ['stablelm'],
  defaults: { max_position_embeddings: 4096, layer_norm_eps: 1e-5, partial_rotary_factor: 0.25 },
  traits({ config, sizes }) {
    const flag = (hub: string, gguf: string): boolean =>
      optionalFlag(config, hub) ?? optionalFlag(config, gguf) ?? false;
    const normsHeads = flag('qk_layernorm', 'use_qk_norm');
    return {
      ropes: [ropeOf(config, sizes)],
      layers: alikeLayers(sizes),
      activation: activationOf(config, 'hidden_act', 'silu'),
      attentionScale: sizes.headSize ** -0.5,
      norm: 'layer',
      normBias: true,
      parallel: optionalFlag(config, 'use_parallel_residual') ?? false,
      ...(normsHeads ? { queryKeyNorm: 'each' } : {}),
      queryKeyValueBias: flag('use_qkv_bias', 'attention_bias'),
      names: {
        'hugging-face': {
          queryNorm: 'self_attn.q_layernorm.norms.*',
          keyNorm: 'self_attn.k_layernorm.norms.*',
        },
      },
    };
  },
};
