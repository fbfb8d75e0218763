// ERNIE 4.5: Llama's shape with heads rotated in neighbouring pairs.

import { type Architecture, activationOf, alikeLayers, biasesOf } from './architecture.ts';
import { ropeOf } from './rope-parameters.ts';

const defaults = {
  max_position_embeddings: 131_072,
  rms_norm_eps: 1e-5,
  rope_theta: 500_000,
  tie_word_embeddings: true,
};

export const ernie45: Architecture = {
  name: 'ernie4_5',
  modelTypes: ['ernie4_5'],
  ggufNames: ['ernie4_5'],
  defaults: { ...defaults, num_key_value_heads: 2, head_dim: 128 },
  traits({ config, sizes }) {
    return {
      ropes: [ropeOf(config, sizes)],
      layers: alikeLayers(sizes),
      activation: activationOf(config, 'hidden_act', 'silu'),
      attentionScale: sizes.headSize ** -0.5,
      ...biasesOf(config),
      interleavedPairs: true,
    };
  },
};
