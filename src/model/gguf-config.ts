// A GGUF file's metadata under Hugging Face field names. What those files say by the presence of a tensor
// (biases, rotary factors) becomes a field too.

import type { GgufValue } from '../weights/gguf-metadata.ts';
import { ModelFileError } from '../weights/model-file-error.ts';
import { readFloats, type WeightSource } from '../weights/weight-source.ts';
import type { Config } from './config.ts';
import { yarnMagnitude } from './rope.ts';

type Metadata = ReadonlyMap<string, GgufValue>;

const keys = {
  hidden_size: 'embedding_length',
  intermediate_size: 'feed_forward_length',
  num_hidden_layers: 'block_count',
  num_attention_heads: 'attention.head_count',
  num_key_value_heads: 'attention.head_count_kv',
  head_dim: 'attention.key_length',
  local_head_dim: 'attention.key_length_swa',
  q_lora_rank: 'attention.q_lora_rank',
  kv_lora_rank: 'attention.kv_lora_rank',
  qk_head_dim: 'attention.key_length_mla',
  v_head_dim: 'attention.value_length_mla',
  qk_rope_head_dim: 'rope.dimension_count',
  num_kv_shared_layers: 'attention.shared_kv_layers',
  hidden_size_per_layer_input: 'embedding_length_per_layer_input',
  altup_num_inputs: 'altup.num_inputs',
  altup_active_idx: 'altup.active_idx',
  activation_cutoffs: 'activation_sparsity_scale',
  max_position_embeddings: 'context_length',
  rms_norm_eps: 'attention.layer_norm_rms_epsilon',
  layer_norm_eps: 'attention.layer_norm_epsilon',
  sliding_window: 'attention.sliding_window',
  sliding_window_pattern: 'attention.sliding_window_pattern',
  attn_logit_softcapping: 'attn_logit_softcapping',
  final_logit_softcapping: 'final_logit_softcapping',
  attention_multiplier: 'attention.scale',
  embedding_multiplier: 'embedding_scale',
  residual_multiplier: 'residual_scale',
  logits_scaling: 'logit_scale',
  logit_scale: 'logit_scale',
  use_parallel_residual: 'use_parallel_residual',
  rope_theta: 'rope.freq_base',
  rope_local_base_freq: 'rope.freq_base_swa',
  num_experts: 'expert_count',
  num_experts_per_tok: 'expert_used_count',
  moe_intermediate_size: 'expert_feed_forward_length',
  norm_topk_prob: 'expert_weights_norm',
  routed_scaling_factor: 'expert_weights_scale',
  first_k_dense_replace: 'leading_dense_block_count',
  interleave_moe_layer_step: 'interleave_moe_layer_step',
  n_shared_experts: 'expert_shared_count',
  shared_expert_intermediate_size: 'expert_shared_feed_forward_length',
  scoring_func: 'expert_gating_func',
  n_group: 'expert_group_count',
  topk_group: 'expert_group_used_count',
  linear_conv_kernel_dim: 'ssm.conv_kernel',
  linear_key_head_dim: 'ssm.state_size',
  linear_num_key_heads: 'ssm.group_count',
  linear_num_value_heads: 'ssm.time_step_rank',
  linear_inner_size: 'ssm.inner_size',
  full_attention_interval: 'full_attention_interval',
  conv_L_cache: 'shortconv.l_cache',
  rope_is_used: 'rope.scaling.finetuned',
} as const;

const ropeKeys = {
  rope_type: 'rope.scaling.type',
  factor: 'rope.scaling.factor',
  original_max_position_embeddings: 'rope.scaling.original_context_length',
  attention_factor: 'rope.scaling.attn_factor',
  beta_fast: 'rope.scaling.yarn_beta_fast',
  beta_slow: 'rope.scaling.yarn_beta_slow',
  rotary_dimensions: 'rope.dimension_count',
  mrope_section: 'rope.dimension_sections',
  mscale_all_dim: 'rope.scaling.yarn_log_multiplier',
  llama_4_scaling_beta: 'attention.temperature_scale',
} as const;

export function ggufConfig(file: string, metadata: Metadata, weights: WeightSource): Config {
  const architecture = String(metadata.get('general.architecture'));
  const spellings = Object.fromEntries(
    Object.entries({ ...keys, ...ropeKeys }).map(([field, key]) => [field, `${architecture}.${key}`]),
  );
  // Where attention is MLA, the lengths are those of what is stored.
  if (!metadata.has(spellings.kv_lora_rank ?? '')) refuseUnequalHeads(file, architecture, metadata);
  const value = (field: string): unknown => metadata.get(spellings[field] ?? field);
  const fields: Record<string, unknown> = {
    model_type: metadata.get('general.architecture'),
    vocab_size: weights.tensors.get('token_embd.weight')?.shape[0],
    attention_bias: weights.tensors.has('blk.0.attn_q.bias'),
    attention_output_bias: weights.tensors.has('blk.0.attn_output.bias'),
    mlp_bias: weights.tensors.has('blk.0.ffn_down.bias'),
    laurel_rank: weights.tensors.get('blk.0.laurel_l.weight')?.shape[0],
    vocab_size_per_layer_input: weights.tensors.get('per_layer_token_embd.weight')?.shape[0],
    type_vocab_size: weights.tensors.get('token_types.weight')?.shape[0],
    use_qk_norm: weights.tensors.has('blk.0.attn_q_norm.weight'),
    tie_word_embeddings: !weights.tensors.has('output.weight'),
    rope_scaling: ropeScaling(value, architecture, metadata, weights),
  };
  for (const field of Object.keys(keys)) fields[field] = value(field);
  // A 0 stands for none; an absent one is what the architecture says.
  for (const field of [
    'sliding_window',
    'num_experts',
    'num_experts_per_tok',
    'routed_scaling_factor',
    'scoring_func',
  ]) {
    if (fields[field] === 0) fields[field] = null;
  }
  // What predicts further tokens ahead (MTP) comes after the layers, and is counted with them.
  const ahead = metadata.get(`${architecture}.nextn_predict_layers`);
  const { num_hidden_layers: blocks } = fields;
  if (typeof ahead === 'number' && typeof blocks === 'number') fields.num_hidden_layers = blocks - ahead;
  // The pattern is a period, or a list of ones and zeros, one a layer.
  if (ArrayBuffer.isView(fields.sliding_window_pattern)) {
    const slides = Array.from(fields.sliding_window_pattern as Uint8Array);
    fields.layer_types = slides.map((one) => (one === 0 ? 'full_attention' : 'sliding_attention'));
    fields.sliding_window_pattern = undefined;
  }
  // Layers that are not attention have no heads for KV.
  if (ArrayBuffer.isView(fields.num_key_value_heads)) {
    const heads = Array.from(fields.num_key_value_heads as Int32Array);
    if (heads.includes(0)) {
      fields.layer_types = heads.map((count) => (count === 0 ? 'other' : 'full_attention'));
      fields.num_key_value_heads = heads.find((count) => count > 0);
    }
  }
  return { file, fields, spellings: { ...spellings, model_type: 'general.architecture' } };
}

function ropeScaling(
  value: (field: string) => unknown,
  architecture: string,
  metadata: Metadata,
  weights: WeightSource,
): Record<string, unknown> {
  const linearFactor = metadata.get(`${architecture}.rope.scale_linear`);
  const fields: Record<string, unknown> = {};
  for (const field of Object.keys(ropeKeys)) fields[field] = value(field) ?? null;
  if (fields.rope_type === 'none' || fields.rope_type === null) fields.rope_type = 'default';
  if (fields.rope_type === 'default' && linearFactor !== undefined) {
    return { ...fields, rope_type: 'linear', factor: linearFactor };
  }
  if (weights.tensors.has('rope_factors_long.weight')) {
    return {
      ...fields,
      rope_type: 'longrope',
      long_factor: [...readFloats(weights, 'rope_factors_long.weight')],
      short_factor: [...readFloats(weights, 'rope_factors_short.weight')],
    };
  }
  if (weights.tensors.has('rope_freqs.weight')) {
    return { ...fields, rope_type: 'per-pair', factors: [...readFloats(weights, 'rope_freqs.weight')] };
  }
  return fields.rope_type === 'yarn' ? yarnFields(fields, architecture) : fields;
}

/** These files store yarn's factor relative to the suggested magnitude, config.json the whole of it. */
function yarnFields(
  fields: Readonly<Record<string, unknown>>,
  architecture: string,
): Record<string, unknown> {
  const { factor, attention_factor: relative, mscale_all_dim: stored } = fields;
  // Files of DeepSeek hold a tenth of it, and stand for two weights that are equal.
  const isTenth = architecture === 'deepseek2';
  const weight = typeof stored === 'number' ? stored * (isTenth ? 10 : 1) : 0;
  const weights = weight > 0 ? { mscale: isTenth ? weight : 1, mscale_all_dim: weight } : {};
  if (typeof relative !== 'number' || typeof factor !== 'number') return { ...fields, ...weights };
  return { ...fields, ...weights, attention_factor: relative * yarnMagnitude(factor) };
}

function refuseUnequalHeads(file: string, architecture: string, metadata: Metadata): void {
  const keyLength = metadata.get(`${architecture}.attention.key_length`);
  const field = `${architecture}.attention.value_length`;
  const valueLength = metadata.get(field);
  if (valueLength === undefined || keyLength === undefined || valueLength === keyLength) return;
  throw new ModelFileError({
    file,
    field,
    problem: `heads of keys (${keyLength}) and of values (${valueLength}) differ in size`,
    remedy: 'Use a model whose heads are all of one size.',
  });
}
