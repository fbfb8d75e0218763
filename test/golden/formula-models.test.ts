// Every architecture and rotary scaling, from files to logits, against results of HF transformers; also in
// the form GGUF files have, so that both namings and row orders lead to the same model.

import { describe, expect, it } from 'vitest';
import type { GgufValue } from '../../src/weights/gguf-values.ts';
import type { OpenedModel } from '../../src/weights/open-model.ts';
import {
  asFolder,
  type FormulaModel,
  type FormulaTensor,
  formulaModel,
  formulaModels,
  formulaTensors,
  logitDifference,
} from '../support/formula-model.ts';
import { floatTensor, memoryWeights } from '../support/memory-weights.ts';

const TOLERANCE = 2e-5;

describe('a folder with config.json and safetensors', () => {
  it.each(Object.entries(formulaModels))('gives the logits of HF transformers: %s', async (_, model) => {
    expect(await logitDifference(model, asFolder(model))).toBeLessThan(TOLERANCE);
  });
});

// As the tool that converts Hugging Face folders to GGUF files renames tensors.
const renamed: readonly (readonly [RegExp, string])[] = [
  [/^model\.layers\.(\d+)\./, 'blk.$1.'],
  [/^model\.embed_tokens/, 'token_embd'],
  [/^model\.norm/, 'output_norm'],
  [/^lm_head/, 'output'],
  [/self_attn\.([qkv])_proj/, 'attn_$1'],
  [/self_attn\.qkv_proj/, 'attn_qkv'],
  [/self_attn\.o_proj/, 'attn_output'],
  [/self_attn\.([qk])_norm/, 'attn_$1_norm'],
  [/input_layernorm/, 'attn_norm'],
  [/pre_feedforward_layernorm/, 'ffn_norm'],
  [/post_feedforward_layernorm/, 'post_ffw_norm'],
  [/mlp\.(gate|up|down)_proj/, 'ffn_$1'],
  [/mlp\.gate_up_proj/, 'ffn_up'],
];

function ggufName(name: string, postNorms: boolean): string {
  const afterAttention = postNorms ? 'post_attention_norm' : 'ffn_norm';
  const first = name.replace('post_attention_layernorm', afterAttention);
  return renamed.reduce((result, [pattern, replacement]) => result.replace(pattern, replacement), first);
}

/** Rows of each head from halves (i, i + half) to pairs (2i, 2i + 1). */
function interleave(tensor: FormulaTensor, heads: number): FormulaTensor {
  const rows = tensor.shape[0] ?? 0;
  const columns = tensor.values.length / rows;
  const half = rows / heads / 2;
  const values = new Float32Array(tensor.values.length);
  for (let row = 0; row < rows; row++) {
    const pair = row % half;
    const second = Math.floor(row / half) % 2;
    const target = row - (row % (2 * half)) + 2 * pair + second;
    values.set(tensor.values.subarray(row * columns, (row + 1) * columns), target * columns);
  }
  return { ...tensor, values };
}

function asGguf(
  model: FormulaModel,
  architecture: string,
  more: Readonly<Record<string, GgufValue>>,
  extra: readonly FormulaTensor[] = [],
): OpenedModel {
  const gemma = architecture === 'gemma3';
  const number = (field: string): number => Number(model.config[field]);
  const tensors = formulaTensors(model).map((tensor) => {
    const { name } = tensor;
    if (architecture === 'llama' && name.includes('q_proj'))
      return interleave(tensor, number('num_attention_heads'));
    if (architecture === 'llama' && name.includes('k_proj'))
      return interleave(tensor, number('num_key_value_heads'));
    return gemma && name.includes('norm')
      ? { ...tensor, values: tensor.values.map((value) => value + 1) }
      : tensor;
  });
  const keys = {
    block_count: number('num_hidden_layers'),
    context_length: number('max_position_embeddings'),
    embedding_length: number('hidden_size'),
    feed_forward_length: number('intermediate_size'),
    'attention.head_count': number('num_attention_heads'),
    'attention.head_count_kv': number('num_key_value_heads'),
    'attention.layer_norm_rms_epsilon': number('rms_norm_eps'),
    ...more,
  };
  const metadata = new Map<string, GgufValue>([['general.architecture', architecture]]);
  for (const [key, value] of Object.entries(keys)) metadata.set(`${architecture}.${key}`, value);
  const weights = memoryWeights(
    [...tensors, ...extra].map(({ name, shape, values }) =>
      floatTensor(ggufName(name, gemma), shape, values),
    ),
  );
  return { format: 'gguf', path: 'made.gguf', version: 3, metadata, weights };
}

const factors = (name: string, ...values: readonly number[]): FormulaTensor => ({
  name,
  shape: [values.length],
  values: Float32Array.from(values),
});

describe('the same model as a GGUF file', () => {
  const same = async (name: string, convert: (model: FormulaModel) => OpenedModel): Promise<void> => {
    const model = formulaModel(name);
    expect(await logitDifference(model, convert(model))).toBeLessThan(TOLERANCE);
  };

  it('llama, rows and biases stored for rotary pairs', () =>
    same('llama with biases', (model) => asGguf(model, 'llama', { 'rope.freq_base': 5000 })));

  it('llama with linear rope', () =>
    same('llama with linear rope', (model) =>
      asGguf(model, 'llama', { 'rope.scaling.type': 'linear', 'rope.scaling.factor': 2.5 }),
    ));

  it('llama with linear rope in the old spelling', () =>
    same('llama with linear rope', (model) => asGguf(model, 'llama', { 'rope.scale_linear': 2.5 })));

  it('llama with yarn rope', () =>
    same('llama with yarn rope', (model) =>
      asGguf(model, 'llama', {
        'attention.key_length': 16,
        'attention.value_length': 16,
        'rope.dimension_count': 16,
        'rope.scaling.type': 'yarn',
        'rope.scaling.factor': 4,
        'rope.scaling.original_context_length': 32,
        'rope.scaling.attn_factor': 1,
      }),
    ));

  it('mistral, which these files call llama', () =>
    same('mistral with a window', (model) => asGguf(model, 'llama', { 'attention.sliding_window': 9 })));

  it('qwen3, its head tied by having none', () =>
    same('qwen3', (model) =>
      asGguf(model, 'qwen3', { 'attention.key_length': 16, 'attention.value_length': 16 }),
    ));

  it('gemma3, norms stored with 1 added, layer kinds as a list', () =>
    same('gemma3 with a logit cap', (model) =>
      asGguf(model, 'gemma3', {
        'attention.key_length': 16,
        'attention.sliding_window': 16,
        'attention.sliding_window_pattern': Uint8Array.of(1, 0),
        'rope.freq_base': 1_000_000,
        final_logit_softcapping: 1.5,
      }),
    ));

  it('phi3, projections fused', () =>
    same('phi3', (model) =>
      asGguf(model, 'phi3', { 'attention.sliding_window': 0, 'rope.dimension_count': 8 }),
    ));

  it('phi3 with longrope, partly rotated', () =>
    same('phi3 with short longrope, partly rotated', (model) =>
      asGguf(
        model,
        'phi3',
        {
          'rope.dimension_count': 8,
          'rope.scaling.original_context_length': 128,
          'rope.scaling.attn_factor': 1,
        },
        [
          factors('rope_factors_long.weight', 1.5, 2, 4, 8),
          factors('rope_factors_short.weight', 1, 1.1, 1.3, 1.7),
        ],
      ),
    ));
});
