// What a configuration means where it leaves a field out, sets it to null or to 0: the same as in transformers, whose own
// configurations, saved with every field, were compared with ours.

import { describe, expect, it } from 'vitest';
import { type Fields, faultOf, specOf } from '../../test/support/built-spec.ts';

const absent = undefined;
const yarn = {
  rope_type: 'yarn',
  factor: 32,
  beta_fast: 32,
  beta_slow: 1,
  truncate: false,
  original_max_position_embeddings: 4096,
};

describe('a field means the same', () => {
  it.each<readonly [model: string, written: Fields, meant: Fields]>([
    // 0 stands for none.
    ['mistral with a window', { sliding_window: 0 }, { sliding_window: null }],
    ['exaone4 without windows', { sliding_window: 0 }, { sliding_window: null }],
    ['starcoder2 with a window', { sliding_window: 0 }, { sliding_window: null }],
    ['deepseek3 without a map before queries', { q_lora_rank: 0 }, { q_lora_rank: null }],
    ['granite4 without experts', { num_local_experts: 0 }, { num_local_experts: null }],
    [
      'qwen2 with experts in every other layer',
      { use_sliding_window: true, sliding_window: 9, max_window_layers: 0 },
      { use_sliding_window: false },
    ],
    // Absent fields have the family's own values.
    ['mistral with a window', { sliding_window: absent }, { sliding_window: 4096 }],
    ['ministral3 with growing queries', { sliding_window: absent }, { sliding_window: null }],
    ['ministral3 with growing queries', { rms_norm_eps: absent }, { rms_norm_eps: 1e-5 }],
    ['qwen2 with upper windows', { sliding_window: absent }, { sliding_window: 4096 }],
    ['gpt-oss', { sliding_window: absent }, { sliding_window: 128 }],
    [
      'gpt-oss',
      { rope_parameters: absent, rope_theta: absent },
      { rope_parameters: { ...yarn, rope_theta: 150_000 } },
    ],
    ['deepseek3', { n_group: absent }, { n_group: 8 }],
    ['deepseek3', { topk_group: absent }, { topk_group: 4 }],
    ['deepseek3', { routed_scaling_factor: absent }, { routed_scaling_factor: 2.5 }],
    ['lfm2 that lists its attention', { theta: 5000 }, { rope_theta: 5000 }],
    ['lfm2 that lists its attention', {}, { rope_theta: 1_000_000 }],
    [
      'lfm2 that lists its attention',
      {},
      { full_attn_idxs: absent, layer_types: ['conv', 'full_attention', 'conv'] },
    ],
    ['lfm2 that lists its attention', {}, { block_ff_dim: absent, intermediate_size: 48 }],
    ['granite4 without experts', { mamba_d_head: absent }, { mamba_d_head: 16 }],
    ['granite4 without experts', { mamba_d_head: 'auto' }, { mamba_d_head: 16 }],
    ['granite4 without experts', { mamba_d_conv: absent }, { mamba_d_conv: 4 }],
    ['granite4 that only attends', { mamba_n_heads: 48 }, { mamba_n_heads: absent }],
    // Without these there is no rotation, so that null can only mean "as usual".
    ['glm4', { partial_rotary_factor: null }, { partial_rotary_factor: 0.5 }],
    ['stablelm with branches side by side', { partial_rotary_factor: null }, { partial_rotary_factor: 0.25 }],
    ['gemma3 with old rope fields', { rope_theta: null }, { rope_theta: 1_000_000 }],
  ])('%s: %j as %j', (model, written, meant) => {
    expect(specOf(model, written)).toEqual(specOf(model, meant));
  });

  it.each([
    ['mistral with a window', 131_072],
    ['ministral3 with growing queries', 262_144],
    ['mixtral', 131_072],
    ['qwen2 with upper windows', 32_768],
    ['qwen3', 32_768],
    ['qwen3 with experts', 32_768],
    ['gpt-oss', 131_072],
    ['lfm2 that lists its attention', 128_000],
  ])('%s: max_position_embeddings as %i where it is absent', (model, positions) => {
    const change = { max_position_embeddings: absent, rope_parameters: absent, rope_scaling: null };
    expect(specOf(model, change).contextLength).toBe(positions);
  });
});

describe('0 experts', () => {
  it('are none, so that a feed-forward is looked for in their place', () => {
    for (const [model, change] of [
      ['qwen3 with experts', { num_experts: 0 }],
      ['qwen2 with experts in every other layer', { num_experts: 0 }],
      ['deepseek3', { n_routed_experts: 0 }],
    ] as const) {
      expect(faultOf(() => specOf(model, change)).field).toMatch(/layers\.\d\.mlp\.gate_proj\.weight$/);
    }
  });

  it('of a size of 0 stand beside no others', () => {
    const shared = (size: number) =>
      JSON.stringify(
        specOf('qwen2 with experts in every other layer', { shared_expert_intermediate_size: size }),
      );
    expect(shared(0)).not.toContain('shared_expert');
  });
});
