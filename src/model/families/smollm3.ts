// SmolLM 3: Llama's shape with some layers that are not told positions.

import {
  type Architecture,
  activationOf,
  biasesOf,
  rotatedLayers,
  slidingLayers,
  windowOf,
} from '../architecture.ts';
import { optionalFlag } from '../config.ts';
import { ropeOf } from '../rope-parameters.ts';

export const smollm3: Architecture = {
  name: 'smollm3',
  modelTypes: ['smollm3'],
  ggufNames: ['smollm3'],
  defaults: {
    num_key_value_heads: 4,
    max_position_embeddings: 32_768,
    rms_norm_eps: 1e-6,
    rope_theta: 2_000_000,
    tie_word_embeddings: true,
  },
  traits(source) {
    const { config, sizes, naming } = source;
    const window = optionalFlag(config, 'use_sliding_window') === true ? windowOf(config) : undefined;
    const rotated = rotatedLayers(source, 4);
    const sliding = slidingLayers(source, (index) => rotated[index] === false);
    return {
      ropes: [ropeOf(config, sizes)],
      layers: sliding.map((slides, index) => ({
        rope: rotated[index] ? 0 : undefined,
        window: slides ? window : undefined,
      })),
      activation: activationOf(config, 'hidden_act', 'silu'),
      attentionScale: sizes.headSize ** -0.5,
      ...biasesOf(config),
      interleavedPairs: naming === 'gguf',
    };
  },
};
