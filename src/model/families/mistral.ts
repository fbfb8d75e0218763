// Mistral and Ministral: Llama's shape with a sliding window over every layer or some; in the third generation queries
// grow with their position. GGUF files of earlier generations say "llama".

import {
  type Architecture,
  activationOf,
  type ModelSource,
  slidingLayers,
  type Traits,
  windowOf,
} from '../architecture.ts';
import { type Config, optionalPositive } from '../config.ts';
import { originalContext, ropeOf, ropeParameters } from '../rope-parameters.ts';
import type { AttentionSpec } from '../spec.ts';

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
  traits: mistralTraits,
};

export const ministral3: Architecture = {
  name: 'ministral3',
  modelTypes: ['ministral3'],
  ggufNames: ['mistral3'],
  defaults: { num_key_value_heads: 8, head_dim: 128, max_position_embeddings: 262_144, rms_norm_eps: 1e-5 },
  traits: mistralTraits,
};

function mistralTraits(source: ModelSource): Traits {
  const { config, sizes, naming } = source;
  const window = windowOf(config);
  return {
    ropes: [ropeOf(config, sizes)],
    layers: slidingLayers(source, () => true).map((slides) => ({
      rope: 0,
      window: slides ? window : undefined,
    })),
    activation: activationOf(config, 'hidden_act', 'silu'),
    attentionScale: sizes.headSize ** -0.5,
    growth: growthOf(ropeParameters(config)),
    interleavedPairs: naming === 'gguf',
  };
}

function growthOf(parameters: Config): AttentionSpec['growth'] {
  const weight = optionalPositive(parameters, 'llama_4_scaling_beta');
  return weight === undefined ? undefined : { weight, length: originalContext(parameters), shift: 0 };
}
