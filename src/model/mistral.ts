// Mistral: Llama's shape with a sliding window over every layer. Its GGUF files say "llama".

import { type Architecture, activationOf, alikeLayers, windowOf } from './architecture.ts';
import { ropeOf } from './rope-parameters.ts';

export const mistral: Architecture = {
  name: 'mistral',
  modelTypes: ['mistral'],
  ggufNames: [],
  defaults: { num_key_value_heads: 8, rms_norm_eps: 1e-6 },
  traits({ config, sizes }) {
    return {
      ropes: [ropeOf(config, sizes)],
      layers: alikeLayers(sizes, windowOf(config)),
      activation: activationOf(config, 'hidden_act', 'silu'),
      attentionScale: sizes.headSize ** -0.5,
    };
  },
};
