// Qwen 3: a norm over each head of q and k, heads of their own size, no biases unless the file says so.

import { type Architecture, activationOf, biasesOf } from '../architecture.ts';
import { ropeOf } from '../rope-parameters.ts';
import { upperWindowLayers } from './qwen2.ts';

export const qwen3: Architecture = {
  name: 'qwen3',
  // What sees images, too, tells the positions of texts as these do.
  modelTypes: ['qwen3', 'qwen3_vl', 'qwen3_vl_text'],
  ggufNames: ['qwen3', 'qwen3vl'],
  defaults: {
    head_dim: 128,
    max_position_embeddings: 32_768,
    rms_norm_eps: 1e-6,
    sliding_window: 4096,
    max_window_layers: 28,
  },
  traits(source) {
    const { config, sizes } = source;
    return {
      ropes: [ropeOf(config, sizes)],
      layers: upperWindowLayers(source),
      activation: activationOf(config, 'hidden_act', 'silu'),
      attentionScale: sizes.headSize ** -0.5,
      queryKeyNorm: 'head',
      ...biasesOf(config),
    };
  },
};
