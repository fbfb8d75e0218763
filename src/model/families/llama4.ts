// Llama 4 (text): layers that see chunks of the text between NoPE layers that see all of it, experts that are scaled at their
// input.

import { fieldOf, optionalFlag, optionalPositive, optionalSize } from '../config.ts';
import { biasesOf, ropeLayers, slidingLayers } from '../layer-config.ts';
import type { AttentionOptions, AttentionSpec } from '../layers/attention.ts';
import type { MoeOptions } from '../layers/moe.ts';
import type { Architecture } from '../model-builder.ts';
import type { ModelSource } from '../model-source.ts';
import { hasExperts, moeOptions } from '../moe-config.ts';
import { type FamilyNames, switchNames } from '../tensor-names.ts';
import { llamaLike } from './llama.ts';

const names: FamilyNames = {
  hub: {
    gate: 'feed_forward.gate_proj',
    up: 'feed_forward.up_proj',
    down: 'feed_forward.down_proj',
    router: 'feed_forward.router',
    expertGateUps: { weight: 'feed_forward.experts.gate_up_proj' },
    expertDowns: { weight: 'feed_forward.experts.down_proj' },
    sharedGate: 'feed_forward.shared_expert.gate_proj',
    sharedUp: 'feed_forward.shared_expert.up_proj',
    sharedDown: 'feed_forward.shared_expert.down_proj',
  },
  mlx: switchNames('feed_forward.experts'),
};

const scalingDefaults = {
  attention_chunk_size: 8192,
  attn_temperature_tuning: true,
  floor_scale: 8192,
  attn_scale: 0.1,
};

export const llama4: Architecture = {
  name: 'llama4',
  modelTypes: ['llama4_text', 'llama4'],
  ggufNames: ['llama4'],
  defaults: {
    ...scalingDefaults,
    num_attention_heads: 40,
    num_key_value_heads: 8,
    head_dim: 128,
    max_position_embeddings: 131_072,
    rms_norm_eps: 1e-5,
    rope_theta: 500_000,
    intermediate_size: 8192,
    intermediate_size_mlp: 16_384,
    num_local_experts: 16,
    num_experts_per_tok: 1,
    use_qk_norm: true,
  },
  ggufDefaults: scalingDefaults,
  build(source) {
    const { config } = source;
    const attentionOf = attentionOptions(source);
    const biases = biasesOf(config);
    const common = { normsAfterRope: true, interleaved: true, ...biases.attention };
    return llamaLike(source, {
      names,
      attention: (rope, layer) => ({ ...attentionOf(layer, rope), ...common }),
      mlp: { size: optionalSize(config, 'intermediate_size_mlp'), ...biases.mlp },
      moe: hasExperts(config) ? expertsOf(source) : undefined,
    });
  },
};

function expertsOf(source: ModelSource): MoeOptions {
  const moe = moeOptions(source, { score: 'sigmoid', normalized: false });
  const shared = { size: moe.size, gated: false };
  return { ...moe, scalesInput: true, transposed: source.naming !== 'gguf', shared };
}

function attentionOptions(source: ModelSource): (index: number, rope: number) => AttentionOptions {
  const { config, opened } = source;
  // GGUF files of models without chunks give a window of 0; all layers have a rotary embedding there.
  const plain = opened.format === 'gguf' && config.fields.sliding_window === null;
  const rotates = ropeLayers(source, 4);
  const chunked = slidingLayers(source, (index) => rotates[index] === true, 'chunked_attention');
  const size = optionalSize(config, 'attention_chunk_size');
  const queryKeyNorm = normsHeads(source) ? 'unscaled' : undefined;
  const growth = growthOf(source);
  return (index, rope) => {
    if (plain) return { rope, queryKeyNorm };
    const chunk = chunked[index] ? size : undefined;
    return rotates[index] ? { chunk, rope, queryKeyNorm } : { chunk, growth };
  };
}

/** GGUF files do not say it: heads are normalized but in the model of 128 experts. */
function normsHeads({ config, opened }: ModelSource): boolean {
  return opened.format === 'gguf'
    ? fieldOf(config, 'num_experts') !== 128
    : optionalFlag(config, 'use_qk_norm') === true;
}

function growthOf({ config }: ModelSource): AttentionSpec['growth'] {
  const tuned = fieldOf(config, 'attn_temperature_tuning') ?? false;
  const weight = optionalPositive(config, 'attn_scale');
  const length = optionalSize(config, 'floor_scale');
  if (tuned === false || weight === undefined || length === undefined) return undefined;
  return { weight, length, shift: 1 };
}
