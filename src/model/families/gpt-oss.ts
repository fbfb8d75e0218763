// gpt-oss: experts with biases and a clamped activation, a sink in every attention head, every other layer with a window.

import { type Architecture, type ModelSource, mixedLayers, windowOf } from '../architecture.ts';
import { fieldOf, isRecord, optionalFlag, optionalPositive } from '../config.ts';
import { expertTraits, withExperts } from '../expert-traits.ts';
import { ropeOf } from '../rope-parameters.ts';
import { type FamilyNames, switchNames } from '../tensor-names.ts';

const names: FamilyNames = {
  'hugging-face': { router: 'mlp.router' },
  mlx: switchNames('mlp.experts'),
  gguf: { ffnNorm: 'post_attention_norm' },
};

export const gptOss: Architecture = {
  name: 'gpt-oss',
  modelTypes: ['gpt_oss'],
  ggufNames: ['gpt-oss'],
  defaults: {
    num_key_value_heads: 8,
    head_dim: 64,
    max_position_embeddings: 131_072,
    sliding_window: 128,
    rms_norm_eps: 1e-5,
    rope_theta: 150_000,
    rope_scaling: {
      rope_type: 'yarn',
      factor: 32,
      beta_fast: 32,
      beta_slow: 1,
      truncate: false,
      original_max_position_embeddings: 4096,
    },
    num_local_experts: 128,
    num_experts_per_tok: 4,
  },
  traits(source) {
    const { config, sizes } = source;
    const sliding = { rope: 0, window: windowOf(config) };
    const bias = optionalFlag(config, 'attention_bias') ?? true;
    return {
      ropes: [ropeOf(config, sizes)],
      layers: withExperts(source, mixedLayers(source, 2, { sliding, full: { rope: 0 } })),
      activation: {
        limit: optionalPositive(config, 'swiglu_limit') ?? 7,
        slope: optionalPositive(config, 'swiglu_alpha') ?? 1.702,
      },
      attentionScale: sizes.headSize ** -0.5,
      sinks: true,
      queryKeyValueBias: bias,
      outputBias: bias,
      experts: {
        ...expertTraits(source, { score: 'softmax', normalized: true }),
        routerBias: true,
        biases: true,
        alternatingGateUp: true,
        transposed: !isCompressed(source),
      },
      names,
    };
  },
};

/** Files from the hub hold experts in four bits, and those as their outputs read them. */
function isCompressed({ config, naming }: ModelSource): boolean {
  return naming === 'gguf' || isRecord(fieldOf(config, 'quantization_config'));
}
