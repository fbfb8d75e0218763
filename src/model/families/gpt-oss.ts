// gpt-oss: experts with biases and a clamped activation, a sink in every attention head, every other layer with a window.

import { fieldOf, isRecord, optionalFlag, optionalPositive } from '../config.ts';
import { periodicSlidingLayers, windowOf } from '../layer-config.ts';
import type { Architecture } from '../model-builder.ts';
import type { ModelSource } from '../model-source.ts';
import { moeOptions } from '../moe-config.ts';
import { type FamilyNames, switchNames } from '../tensor-names.ts';
import { llamaLike } from './llama.ts';

const names: FamilyNames = {
  hub: { router: 'mlp.router' },
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
  build(source) {
    const { config } = source;
    const window = windowOf(config);
    const slides = periodicSlidingLayers(source, 2);
    const activation = {
      limit: optionalPositive(config, 'swiglu_limit') ?? 7,
      slope: optionalPositive(config, 'swiglu_alpha') ?? 1.702,
    };
    const bias = optionalFlag(config, 'attention_bias') ?? true;
    return llamaLike(source, {
      names,
      attention: (rope, layer) => ({
        rope,
        window: slides[layer] ? window : undefined,
        sinks: true,
        queryKeyValueBias: bias,
        outputBias: bias,
      }),
      mlp: { activation },
      moe: {
        ...moeOptions(source),
        routerBias: true,
        biases: true,
        alternatingGateUp: true,
        transposed: !isCompressed(source),
      },
    });
  },
};

/** Files from the hub hold experts in four bits, and those as their outputs read them. */
function isCompressed({ config, naming }: ModelSource): boolean {
  return naming === 'gguf' || isRecord(fieldOf(config, 'quantization_config'));
}
