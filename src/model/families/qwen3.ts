// Qwen 3, dense and with experts: a norm over each head of q and k, heads of their own size, no biases unless the file says so.

import { fieldOf } from '../config.ts';
import { biasesOf } from '../layer-config.ts';
import type { MoeOptions } from '../layers/moe.ts';
import type { Architecture } from '../model-builder.ts';
import type { ModelSource } from '../model-source.ts';
import { hasExperts, moeOptions } from '../moe-config.ts';
import type { ModelSpec } from '../spec.ts';
import { llamaLike } from './llama.ts';
import { upperWindows } from './qwen2.ts';

/** Of those that see images. */
const interleavedAxes = { mrope_interleaved: true };

export const qwen3: Architecture = {
  name: 'qwen3',
  // Models that see images, too, encode the positions of texts as these do.
  modelTypes: ['qwen3', 'qwen3_vl', 'qwen3_vl_text'],
  ggufNames: ['qwen3', 'qwen3vl'],
  defaults: {
    head_dim: 128,
    max_position_embeddings: 32_768,
    rms_norm_eps: 1e-6,
    sliding_window: 4096,
    max_window_layers: 28,
  },
  ggufDefaults: interleavedAxes,
  build: (source) => build(source),
};

export const qwen3Moe: Architecture = {
  name: 'qwen3moe',
  modelTypes: ['qwen3_moe', 'qwen3_vl_moe', 'qwen3_vl_moe_text'],
  ggufNames: ['qwen3moe', 'qwen3vlmoe'],
  defaults: {
    head_dim: 128,
    num_key_value_heads: 4,
    max_position_embeddings: 32_768,
    rms_norm_eps: 1e-6,
    sliding_window: 4096,
    max_window_layers: 28,
    num_experts_per_tok: 8,
    moe_intermediate_size: 768,
    norm_topk_prob: false,
  },
  ggufDefaults: interleavedAxes,
  build(source) {
    // GGUF files have no norm_topk_prob, and `defaults` are of config.json alone: the weights of chosen experts then sum to one.
    if (!hasExperts(source.config)) return build(source);
    // Those that see images have matrices of experts turned.
    const type = String(fieldOf(source.config, 'model_type'));
    return build(source, { ...moeOptions(source), transposed: type.startsWith('qwen3_vl') });
  },
};

function build(source: ModelSource, moe?: MoeOptions): ModelSpec {
  const windows = upperWindows(source);
  const biases = biasesOf(source.config);
  return llamaLike(source, {
    attention: (rope, layer) => ({
      rope,
      window: windows[layer],
      queryKeyNorm: 'head',
      ...biases.attention,
    }),
    mlp: biases.mlp,
    moe,
  });
}
