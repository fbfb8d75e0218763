// StarCoder 2: layer norms and biases everywhere, and a feed-forward without a gate.

import { activationOf, biasesOf, windowOf } from '../layer-config.ts';
import type { Architecture } from '../model-builder.ts';
import { llamaLike } from './llama.ts';

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
  build(source) {
    const { config } = source;
    const window = windowOf(config);
    const biases = biasesOf(config);
    return llamaLike(source, {
      names: { hub: { up: 'mlp.c_fc', down: 'mlp.c_proj' } },
      norms: { kind: 'layer', bias: true },
      attention: (rope) => ({ rope, window, ...biases.attention }),
      mlp: { activation: activationOf(config, 'gelu-tanh'), ungated: true, ...biases.mlp },
    });
  },
};
