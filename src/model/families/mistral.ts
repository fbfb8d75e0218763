// Mistral and Ministral: Llama's shape with a sliding window over every layer or some; in the third generation queries grow
// with their position. Mixtral has experts in place of one feed-forward. GGUF files of earlier generations say "llama".

import { type Config, optionalPositive } from '../config.ts';
import { slidingLayers, windowOf } from '../layer-config.ts';
import type { AttentionSpec } from '../layers/attention.ts';
import type { Architecture } from '../model-builder.ts';
import type { ModelSource } from '../model-source.ts';
import { moeOptions } from '../moe-config.ts';
import { originalContext, ropeParameters } from '../rope-parameters.ts';
import type { ModelSpec } from '../spec.ts';
import { llamaLike, mixtralNames } from './llama.ts';

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

export const mixtral: Architecture = {
  name: 'mixtral',
  modelTypes: ['mixtral'],
  ggufNames: [],
  defaults: {
    num_key_value_heads: 8,
    max_position_embeddings: 131_072,
    rms_norm_eps: 1e-5,
    rope_theta: 1_000_000,
    num_local_experts: 8,
    num_experts_per_tok: 2,
  },
  build(source) {
    const { config, naming } = source;
    const window = windowOf(config);
    return llamaLike(source, {
      names: mixtralNames,
      attention: (rope) => ({ rope, window, interleaved: naming === 'gguf' }),
      moe: moeOptions(source),
    });
  },
};

function build(source: ModelSource): ModelSpec {
  const { config, naming } = source;
  const window = windowOf(config);
  const slides = slidingLayers(source, () => true);
  const growth = growthOf(ropeParameters(config));
  return llamaLike(source, {
    attention: (rope, layer) => ({
      rope,
      window: slides[layer] ? window : undefined,
      growth,
      interleaved: naming === 'gguf',
    }),
  });
}

function growthOf(parameters: Config): AttentionSpec['growth'] {
  const weight = optionalPositive(parameters, 'llama_4_scaling_beta');
  return weight === undefined ? undefined : { weight, length: originalContext(parameters), shift: 0 };
}
