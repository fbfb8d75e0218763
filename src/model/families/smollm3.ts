// SmolLM 3: Llama's shape with some layers without positional encoding (NoPE).

import { biasesOf, ropeLayers, slidingLayers, usedWindowOf } from '../layer-config.ts';
import type { Architecture } from '../model-builder.ts';
import { llamaLike } from './llama.ts';

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
  build(source) {
    const { config, naming } = source;
    const window = usedWindowOf(config);
    const rotates = ropeLayers(source, 4);
    const slides = slidingLayers(source, (index) => rotates[index] === false);
    const biases = biasesOf(config);
    return llamaLike(source, {
      attention: (rope, layer) => ({
        rope: rotates[layer] ? rope : undefined,
        window: slides[layer] ? window : undefined,
        interleaved: naming === 'gguf',
        ...biases.attention,
      }),
      mlp: biases.mlp,
    });
  },
};
