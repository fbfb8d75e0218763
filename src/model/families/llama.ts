// Llama and what shares its shape: SmolLM, TinyLlama, and Mistral and Mixtral in GGUF files.

import { configError } from '../config.ts';
import { activationOf, biasesOf, windowOf } from '../layer-config.ts';
import { preNorm } from '../layer-shapes.ts';
import { attention } from '../layers/attention.ts';
import { mlpOrMoe } from '../layers/moe.ts';
import { type Architecture, ModelBuilder } from '../model-builder.ts';
import { hasExperts, moeOptions } from '../moe-config.ts';
import { ropeOf } from '../rope-parameters.ts';
import { mixtralNames } from './mixtral.ts';

export const llama: Architecture = {
  name: 'llama',
  modelTypes: ['llama'],
  ggufNames: ['llama'],
  defaults: { rms_norm_eps: 1e-6, max_position_embeddings: 2048 },
  build(source) {
    const { config, sizes, naming, opened } = source;
    const model = new ModelBuilder(source, { names: mixtralNames });
    const table = ropeOf(config, sizes);
    const rotated = 2 * table.inverseFrequencies.length;
    const interleaved = naming === 'gguf';
    if (interleaved && rotated !== sizes.headSize) {
      throw configError(
        config,
        'rotary_dimensions',
        `rotates ${rotated} of ${sizes.headSize} values of a head`,
        'Use a file whose heads are rotated whole.',
      );
    }
    // Only GGUF files call models with a window or experts "llama".
    const isGguf = opened.format === 'gguf';
    const window = isGguf ? windowOf(config) : undefined;
    const experts = isGguf && hasExperts(config);
    const moe = experts ? moeOptions(source, { score: 'softmax', normalized: true }) : undefined;
    const activation = activationOf(config);
    const biases = biasesOf(config);
    const rope = model.rope(table);
    return model.spec({
      layers: (layer) =>
        preNorm(
          layer,
          attention(layer, { rope, window, interleaved, ...biases.attention }),
          mlpOrMoe(layer, { activation, ...biases.mlp }, moe),
        ),
    });
  },
};
