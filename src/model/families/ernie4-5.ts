// ERNIE 4.5: Llama's shape with heads rotated in neighbouring pairs; also with experts.

import { biasesOf } from '../layer-config.ts';
import type { MoeOptions } from '../layers/moe.ts';
import type { Architecture } from '../model-builder.ts';
import type { ModelSource } from '../model-source.ts';
import { moeOptions } from '../moe-config.ts';
import type { ModelSpec } from '../spec.ts';
import { sharedExpertsNames } from '../tensor-names.ts';
import { llamaLike } from './llama.ts';

const defaults = {
  max_position_embeddings: 131_072,
  rms_norm_eps: 1e-5,
  rope_theta: 500_000,
  tie_word_embeddings: true,
};

export const ernie45: Architecture = {
  name: 'ernie4_5',
  modelTypes: ['ernie4_5'],
  ggufNames: ['ernie4_5'],
  defaults: { ...defaults, num_key_value_heads: 2, head_dim: 128 },
  build: (source) => build(source),
};

export const ernie45Moe: Architecture = {
  name: 'ernie4_5-moe',
  modelTypes: ['ernie4_5_moe'],
  ggufNames: ['ernie4_5-moe'],
  defaults: {
    ...defaults,
    num_key_value_heads: 4,
    moe_intermediate_size: 1536,
    moe_num_experts: 64,
    moe_k: 6,
    moe_num_shared_experts: 2,
    moe_layer_start_index: 1,
  },
  build: (source) =>
    build(source, {
      ...moeOptions(source),
      routingBias: 'not-in-mlx',
    }),
};

const names = {
  hub: {
    ...sharedExpertsNames,
    routingBias: { bias: 'mlp.moe_statics.e_score_correction_bias' },
    mtpLayer: 'mtp_block.0.',
  },
};

function build(source: ModelSource, moe?: MoeOptions): ModelSpec {
  const biases = biasesOf(source.config);
  return llamaLike(source, {
    names,
    attention: (rope) => ({ rope, interleaved: true, ...biases.attention }),
    mlp: biases.mlp,
    moe,
    mtpPlace: 'ernie',
    mtpMoe: false,
  });
}
