// Llama and what shares its shape: SmolLM, TinyLlama, and Mistral in GGUF files.

import { type Architecture, activationOf, alikeLayers, windowOf } from './architecture.ts';
import { configError, optionalFlag } from './config.ts';
import { ropeOf } from './rope-parameters.ts';

export const llama: Architecture = {
  name: 'llama',
  modelTypes: ['llama'],
  ggufNames: ['llama'],
  defaults: { rms_norm_eps: 1e-6, max_position_embeddings: 2048 },
  traits({ config, sizes, naming }) {
    const rope = ropeOf(config, sizes);
    const interleavedPairs = naming === 'gguf';
    if (interleavedPairs && 2 * rope.inverseFrequencies.length !== sizes.headSize) {
      throw configError(
        config,
        'rotary_dimensions',
        `rotates ${2 * rope.inverseFrequencies.length} of ${sizes.headSize} values of a head`,
        'Use a file whose heads are rotated whole.',
      );
    }
    const attentionBias = optionalFlag(config, 'attention_bias') ?? false;
    return {
      ropes: [rope],
      // Only a GGUF file calls a model with a window "llama".
      layers: alikeLayers(sizes, naming === 'gguf' ? windowOf(config) : undefined),
      activation: activationOf(config, 'hidden_act', 'silu'),
      attentionScale: sizes.headSize ** -0.5,
      queryKeyValueBias: attentionBias,
      outputBias: optionalFlag(config, 'attention_output_bias') ?? attentionBias,
      ffnBias: optionalFlag(config, 'mlp_bias') ?? false,
      interleavedPairs,
    };
  },
};
