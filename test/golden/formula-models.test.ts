// Every architecture and rotary scaling, from files to logits, against results of HF transformers; also in
// the form GGUF files have, so that both namings and row orders lead to the same model.

import { describe, expect, it } from 'vitest';
import { createReferenceBackend } from '../../src/compute/reference/backend.ts';
import type { OpenedModel } from '../../src/weights/open-model.ts';
import { asGguf, type GgufForm } from '../support/formula-gguf.ts';
import {
  asFolder,
  type FormulaTensor,
  formulaLogits,
  formulaModel,
  formulaModels,
  logitDifference,
} from '../support/formula-model.ts';
import { asMlxFolder } from '../support/mlx-form.ts';

const TOLERANCE = 2e-5;

describe('a folder with config.json and safetensors', () => {
  it.each(Object.entries(formulaModels))('gives the logits of HF transformers: %s', async (_, model) => {
    expect(await logitDifference(model, asFolder(model))).toBeLessThan(TOLERANCE);
  });
});

describe('the same model as mlx-lm converts it', () => {
  it.each([
    'granite with experts',
    'mixtral',
    'qwen2 with experts in every other layer',
    'qwen3 with experts',
    'olmoe',
    'glm4 with experts in groups',
    'gpt-oss',
    'llama4',
    'gemma4 with experts beside',
    'deepseek2 with experts in groups',
    'deepseek3',
    'deepseek3 without a map before queries',
    'glm4 with MLA',
  ])('gives the logits of HF transformers: %s', async (name) => {
    const model = formulaModel(name);
    expect(await logitDifference(model, asMlxFolder(model))).toBeLessThan(TOLERANCE);
  });

  it('has no routing bias where mlx-lm leaves it out: ernie4_5 with experts', async () => {
    const model = formulaModel('ernie4_5 with experts in every other layer');
    const hub = withZeros(asFolder(model), 'e_score_correction_bias');
    const [known, computed] = await Promise.all(
      [hub, asMlxFolder(model)].map((opened) => formulaLogits(createReferenceBackend, model, opened)),
    );
    expect(computed).toEqual(known);
  });
});

/** Tensors whose names end so hold zeros. */
function withZeros(opened: OpenedModel, ending: string): OpenedModel {
  const { tensors, readRows, close } = opened.weights;
  const read: typeof readRows = (name, first, count, into) =>
    name.endsWith(ending) ? void into.fill(0) : readRows(name, first, count, into);
  return { ...opened, weights: { tensors, readRows: read, close } };
}

const factors = (name: string, ...values: readonly number[]): FormulaTensor => ({
  name,
  shape: [values.length],
  values: Float32Array.from(values),
});

const llama = (keys: GgufForm['keys'] = {}): GgufForm => ({ architecture: 'llama', pairs: true, keys });
const heads = (size: number) => ({ 'attention.key_length': size, 'attention.value_length': size });
const mixture = (experts: number, size: number) => ({
  expert_count: experts,
  expert_used_count: 2,
  expert_feed_forward_length: size,
});
const latent = {
  'attention.kv_lora_rank': 16,
  'attention.q_lora_rank': 12,
  'attention.key_length': 24,
  'attention.value_length': 16,
  'attention.key_length_mla': 16,
  'attention.value_length_mla': 12,
  'attention.head_count_kv': 1,
  'rope.dimension_count': 8,
};
const groups = { expert_group_count: 4, expert_group_used_count: 2, leading_dense_block_count: 1 };
const slides = (...layers: readonly number[]) => ({
  'attention.sliding_window': 9,
  'attention.sliding_window_pattern': Uint8Array.from(layers),
});

describe('the same model as a GGUF file', () => {
  it.each<readonly [promise: string, name: string, form: GgufForm]>([
    [
      'llama, rows and biases stored for rotary pairs',
      'llama with biases',
      llama({ 'rope.freq_base': 5000 }),
    ],
    [
      'llama with linear rope',
      'llama with linear rope',
      llama({ 'rope.scaling.type': 'linear', 'rope.scaling.factor': 2.5 }),
    ],
    [
      'llama with linear rope in the old spelling',
      'llama with linear rope',
      llama({ 'rope.scale_linear': 2.5 }),
    ],
    [
      'llama with yarn rope',
      'llama with yarn rope',
      llama({
        ...heads(16),
        'rope.dimension_count': 16,
        'rope.scaling.type': 'yarn',
        'rope.scaling.factor': 4,
        'rope.scaling.original_context_length': 32,
        'rope.scaling.attn_factor': 1,
      }),
    ],
    [
      'mistral, which these files call llama',
      'mistral with a window',
      llama({ 'attention.sliding_window': 9 }),
    ],
    [
      'mixtral, which they call llama, too',
      'mixtral',
      llama({ ...mixture(4, 24), 'rope.freq_base': 1_000_000 }),
    ],
    ['qwen3, its head tied by having none', 'qwen3', { architecture: 'qwen3', keys: heads(16) }],
    [
      'qwen3 with experts',
      'qwen3 with experts',
      { architecture: 'qwen3moe', keys: { ...heads(16), ...mixture(4, 24) } },
    ],
    [
      'gemma3, norms stored with 1 added, layer kinds as a list',
      'gemma3 with a logit cap',
      {
        architecture: 'gemma3',
        raisesNorms: true,
        postAttention: 'post_attention_norm',
        keys: {
          'attention.key_length': 16,
          'attention.sliding_window': 16,
          'attention.sliding_window_pattern': Uint8Array.of(1, 0),
          'rope.freq_base': 1_000_000,
          final_logit_softcapping: 1.5,
        },
      },
    ],
    [
      'gemma4, layer kinds and inputs of layers',
      'gemma4 with inputs of layers',
      {
        architecture: 'gemma4',
        postAttention: 'post_attention_norm',
        keys: {
          ...heads(16),
          ...slides(1, 0, 0),
          'attention.key_length_swa': 8,
          'attention.shared_kv_layers': 1,
          embedding_length_per_layer_input: 8,
          feed_forward_length: Uint32Array.of(48, 48, 96),
          'rope.freq_base': 1_000_000,
          'rope.freq_base_swa': 10_000,
          final_logit_softcapping: 1.5,
        },
        extra: [factors('rope_freqs.weight', 1, 1, ...Array<number>(6).fill(1e30))],
      },
    ],
    [
      'gemma4, experts beside the feed-forward, values that are keys',
      'gemma4 with experts beside',
      {
        architecture: 'gemma4',
        postAttention: 'post_attention_norm',
        keys: {
          ...heads(16),
          ...slides(1, 0),
          ...mixture(4, 24),
          'attention.key_length_swa': 8,
          'attention.head_count_kv': Uint32Array.of(2, 1),
          embedding_length_per_layer_input: 0,
          'rope.freq_base': 1_000_000,
          'rope.freq_base_swa': 10_000,
          final_logit_softcapping: 1.5,
        },
        extra: [factors('rope_freqs.weight', 1, 1, ...Array<number>(6).fill(1e30))],
      },
    ],
    [
      'phi3, projections fused',
      'phi3',
      { architecture: 'phi3', keys: { 'attention.sliding_window': 0, 'rope.dimension_count': 8 } },
    ],
    [
      'phi3 with longrope, partly rotated',
      'phi3 with short longrope, partly rotated',
      {
        architecture: 'phi3',
        keys: {
          'rope.dimension_count': 8,
          'rope.scaling.original_context_length': 128,
          'rope.scaling.attn_factor': 1,
        },
        extra: [
          factors('rope_factors_long.weight', 1.5, 2, 4, 8),
          factors('rope_factors_short.weight', 1, 1.1, 1.3, 1.7),
        ],
      },
    ],
    [
      'olmo2, norms behind branches',
      'olmo2 with shared keys',
      { architecture: 'olmo2', postAttention: 'post_attention_norm' },
    ],
    [
      'granite with experts, its factors named otherwise',
      'granite with experts',
      {
        architecture: 'granitemoe',
        pairs: true,
        keys: {
          ...mixture(4, 24),
          'attention.scale': 0.3,
          embedding_scale: 2,
          residual_scale: 0.6,
          logit_scale: 0.5,
        },
      },
    ],
    [
      'command-r, norms of heads in one tensor',
      'cohere with norms of heads',
      { architecture: 'command-r', keys: { logit_scale: 0.5, 'rope.freq_base': 500_000 } },
    ],
    [
      'cohere2, layer kinds as a list',
      'cohere2',
      { architecture: 'cohere2', keys: { ...slides(1, 0, 1), logit_scale: 0.5 } },
    ],
    [
      'starcoder2, biases told by tensors',
      'starcoder2 with a window',
      { architecture: 'starcoder2', keys: { 'attention.sliding_window': 9 } },
    ],
    [
      'glm4 with experts in groups, which gives the norm of the feed-forward another name',
      'glm4 with experts in groups',
      {
        architecture: 'glm4moe',
        postAttention: 'post_attention_norm',
        keys: {
          ...heads(8),
          ...mixture(8, 24),
          ...groups,
          expert_shared_count: 2,
          expert_gating_func: 2,
          expert_weights_norm: true,
          expert_weights_scale: 2.5,
          'rope.dimension_count': 4,
        },
      },
    ],
    [
      'gpt-oss, gates and ups of experts apart',
      'gpt-oss',
      {
        architecture: 'gpt-oss',
        postAttention: 'post_attention_norm',
        keys: {
          ...heads(16),
          ...mixture(4, 24),
          'attention.sliding_window': 9,
          'rope.scaling.type': 'yarn',
          'rope.scaling.factor': 4,
          'rope.scaling.original_context_length': 32,
        },
      },
    ],
    [
      'deepseek3, maps from the latent split and turned',
      'deepseek3',
      {
        architecture: 'deepseek2',
        keys: {
          ...latent,
          ...mixture(8, 24),
          ...groups,
          expert_shared_count: 1,
          expert_gating_func: 2,
          expert_weights_norm: true,
          expert_weights_scale: 2.5,
        },
      },
    ],
  ])('%s', async (_, name, form) => {
    const model = formulaModel(name);
    const opened: OpenedModel = asGguf(model, form);
    expect(await logitDifference(model, opened)).toBeLessThan(TOLERANCE);
  });
});
