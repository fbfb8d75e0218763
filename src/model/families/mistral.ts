// Mistral and Ministral: Llama's shape with a sliding window over every layer or some; in the third generation queries
// grow with their position. GGUF files of earlier generations say "llama".

import { type Config, optionalPositive } from '../config.ts';
import { activationOf, slidingLayers, windowOf } from '../layer-config.ts';
import { preNorm } from '../layer-shapes.ts';
import { type AttentionSpec, attention } from '../layers/attention.ts';
import { mlp } from '../layers/mlp.ts';
import { type Architecture, type FamilySpec, ModelBuilder } from '../model-builder.ts';
import type { ModelSource } from '../model-source.ts';
import { originalContext, ropeOf, ropeParameters } from '../rope-parameters.ts';

export const mistral: Architecture = {
  name: 'mistral',
  modelTypes: ['mistral', 'ministral'],
  ggufNames: [],
  defaults: {
    num_key_value_heads: 8,
    max_position_embeddings: 131_072,
    rms_norm_eps: 1e-6,
    sliding_window: 4096,
  },
  build,
};

export const ministral3: Architecture = {
  name: 'ministral3',
  modelTypes: ['ministral3'],
  ggufNames: ['mistral3'],
  defaults: { num_key_value_heads: 8, head_dim: 128, max_position_embeddings: 262_144, rms_norm_eps: 1e-5 },
  build,
};

function build(source: ModelSource): FamilySpec {
  const { config, sizes, naming } = source;
  const model = new ModelBuilder(source);
  const rope = model.rope(ropeOf(config, sizes));
  const window = windowOf(config);
  const slides = slidingLayers(source, () => true);
  const growth = growthOf(ropeParameters(config));
  const activation = activationOf(config);
  return model.spec({
    layers: (layer) =>
      preNorm(
        layer,
        attention(layer, {
          rope,
          window: slides[layer.index] ? window : undefined,
          growth,
          interleaved: naming === 'gguf',
        }),
        mlp(layer, { activation }),
      ),
  });
}

function growthOf(parameters: Config): AttentionSpec['growth'] {
  const weight = optionalPositive(parameters, 'llama_4_scaling_beta');
  return weight === undefined ? undefined : { weight, length: originalContext(parameters), shift: 0 };
}
