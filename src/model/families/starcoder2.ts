// StarCoder 2: layer norms and biases everywhere, and a feed-forward without a gate.

import { type Architecture, activationOf, alikeLayers, biasesOf, windowOf } from '../architecture.ts';
import { ropeOf } from '../rope-parameters.ts';

export const starcoder2: Architecture = {
  name: 'starcoder2',
  modelTypes: ['starcoder2'],
  ggufNames: ['starcoder2'],
  defaults: {
    num_key_value_heads: 2,
    max_position_embeddings: 4096,
    norm_epsilon: 1e-5,
    use_bias: true,
    tie_word_embeddings: true,
  },
  traits({ config, sizes }) {
    return {
      ropes: [ropeOf(config, sizes)],
      layers: alikeLayers(sizes, windowOf(config)),
      activation: activationOf(config, 'hidden_act', 'gelu-tanh'),
      attentionScale: sizes.headSize ** -0.5,
      norm: 'layer',
      normBias: true,
      ungated: true,
      ...biasesOf(config),
      names: { 'hugging-face': { up: 'mlp.c_fc', down: 'mlp.c_proj' } },
    };
  },
};
