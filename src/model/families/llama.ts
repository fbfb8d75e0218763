// Llama and what shares its shape: SmolLM, TinyLlama, and Mistral and Mixtral in GGUF files.

import { type Architecture, activationOf, alikeLayers, biasesOf, windowOf } from '../architecture.ts';
import { configError } from '../config.ts';
import { expertTraits, hasExperts, withExperts } from '../expert-traits.ts';
import { ropeOf } from '../rope-parameters.ts';
import { mixtralNames } from './mixtral.ts';

export const llama: Architecture = {
  name: 'llama',
  modelTypes: ['llama'],
  ggufNames: ['llama'],
  defaults: { rms_norm_eps: 1e-6, max_position_embeddings: 2048 },
  traits(source) {
    const { config, sizes, naming, opened } = source;
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
    // Only GGUF files call models with a window or experts "llama".
    const isGguf = opened.format === 'gguf';
    const layers = alikeLayers(sizes, isGguf ? windowOf(config) : undefined);
    const mixes = isGguf && hasExperts(config);
    return {
      ropes: [rope],
      layers: mixes ? withExperts(source, layers) : layers,
      ...(mixes ? { experts: expertTraits(source, { score: 'softmax', normalized: true }) } : {}),
      activation: activationOf(config, 'hidden_act', 'silu'),
      attentionScale: sizes.headSize ** -0.5,
      ...biasesOf(config),
      interleavedPairs,
      ...(mixes ? { names: mixtralNames } : {}),
    };
  },
};
