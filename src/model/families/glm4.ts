// GLM-4: norms around each branch, half of each head rotated in neighbouring pairs, gate and up in one tensor. The first
// generation (`glm`) has norms before branches alone.

import { type Architecture, activationOf, alikeLayers } from '../architecture.ts';
import { fieldOf, optionalFlag } from '../config.ts';
import { ropeOf } from '../rope-parameters.ts';
import type { RoleNames } from '../tensor-names.ts';

const names: RoleNames = {
  attentionPostNorm: 'post_self_attn_layernorm',
  ffnPostNorm: 'post_mlp_layernorm',
};

export const glm4: Architecture = {
  name: 'glm4',
  modelTypes: ['glm4', 'glm'],
  ggufNames: ['glm4'],
  defaults: {
    num_key_value_heads: 2,
    head_dim: 128,
    max_position_embeddings: 131_072,
    rms_norm_eps: 1.5625e-7,
    partial_rotary_factor: 0.5,
    attention_bias: true,
  },
  traits({ config, sizes }) {
    return {
      ropes: [ropeOf(config, sizes)],
      layers: alikeLayers(sizes),
      activation: activationOf(config, 'hidden_act', 'silu'),
      attentionScale: sizes.headSize ** -0.5,
      norms: fieldOf(config, 'model_type') === 'glm' ? 'before' : 'around',
      queryKeyValueBias: optionalFlag(config, 'attention_bias') ?? false,
      fusedGateUp: true,
      interleavedPairs: true,
      names: { 'hugging-face': names },
    };
  },
};
