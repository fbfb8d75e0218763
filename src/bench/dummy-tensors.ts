// The tensors of a dummy model: names, shapes and types, as GGUF converters write them.

import { tensorLayouts } from '../weights/tensor-type.ts';
import type { TensorInfo } from '../weights/weight-source.ts';
import { type DummyShape, seesAll } from './dummy-shapes.ts';
import type { DummyType } from './dummy-weights.ts';

export const CONVOLUTION = 4;

export function dummyTensors(shape: DummyShape, type: DummyType): TensorInfo[] {
  const { hidden, vocab, global } = shape;
  // MXFP4 files store the experts in it, and all else in Q8_0.
  const types = { experts: type, others: type === 'MXFP4' && shape.experts !== undefined ? 'Q8_0' : type };
  return [
    matrix('token_embd.weight', vocab, hidden, types.others),
    ...(global === undefined ? [] : [vector('rope_freqs.weight', global.headSize / 2)]),
    ...Array.from({ length: shape.layers }, (_, layer) => layerTensors(shape, types, layer)).flat(),
    vector('output_norm.weight', hidden),
    ...(shape.tied ? [] : [matrix('output.weight', vocab, hidden, types.others)]),
  ];
}

interface Types {
  readonly experts: DummyType;
  readonly others: DummyType;
}

type Naming = (part: string) => string;

function layerTensors(shape: DummyShape, types: Types, layer: number): TensorInfo[] {
  const { architecture, hidden, gatedDeltaNet } = shape;
  const at = (part: string) => `blk.${layer}.${part}`;
  const attends = gatedDeltaNet === undefined || (layer + 1) % gatedDeltaNet.interval === 0;
  const named = architecture === 'qwen35' || architecture === 'gpt-oss';
  return [
    vector(at('attn_norm.weight'), hidden),
    ...(attends
      ? attentionTensors(shape, types.others, layer, at)
      : deltaTensors(shape, gatedDeltaNet, types.others, at)),
    ...(architecture === 'gemma4' ? [vector(at('post_attention_norm.weight'), hidden)] : []),
    vector(at(named ? 'post_attention_norm.weight' : 'ffn_norm.weight'), hidden),
    ...feedForwardTensors(shape, types, at),
  ];
}

function attentionTensors(shape: DummyShape, type: DummyType, layer: number, at: Naming): TensorInfo[] {
  const { architecture, hidden, heads, gatedDeltaNet } = shape;
  const global = seesAll(shape, layer) ? shape.global : undefined;
  const { kvHeads, headSize } = global ?? shape;
  const rows = { q: heads * headSize, k: kvHeads * headSize, v: kvHeads * headSize };
  const biases = Object.entries(rows).map(([part, count]) => vector(at(`attn_${part}.bias`), count));
  const headNorms = [vector(at('attn_q_norm.weight'), headSize), vector(at('attn_k_norm.weight'), headSize)];
  const sinks = [vector(at('attn_output.bias'), hidden), vector(at('attn_sinks.weight'), heads)];
  const normsHeads = architecture === 'qwen3moe' || architecture === 'qwen35' || architecture === 'gemma4';
  return [
    // Hybrids store the gate of each head with its query.
    matrix(at('attn_q.weight'), (gatedDeltaNet === undefined ? 1 : 2) * rows.q, hidden, type),
    matrix(at('attn_k.weight'), rows.k, hidden, type),
    ...(global === undefined ? [matrix(at('attn_v.weight'), rows.v, hidden, type)] : []),
    ...(architecture === 'qwen2' || architecture === 'gpt-oss' ? biases : []),
    ...(normsHeads ? headNorms : []),
    matrix(at('attn_output.weight'), hidden, rows.q, type),
    ...(architecture === 'gpt-oss' ? sinks : []),
  ];
}

function deltaTensors(
  { hidden }: DummyShape,
  { keyHeads, valueHeads, size }: NonNullable<DummyShape['gatedDeltaNet']>,
  type: DummyType,
  at: Naming,
): TensorInfo[] {
  const values = valueHeads * size;
  const channels = 2 * keyHeads * size + values;
  return [
    matrix(at('attn_qkv.weight'), channels, hidden, type),
    matrix(at('attn_gate.weight'), values, hidden, type),
    matrix(at('ssm_alpha.weight'), valueHeads, hidden, type),
    matrix(at('ssm_beta.weight'), valueHeads, hidden, type),
    matrix(at('ssm_conv1d.weight'), channels, CONVOLUTION, 'F32'),
    vector(at('ssm_a'), valueHeads),
    vector(at('ssm_dt.bias'), valueHeads),
    vector(at('ssm_norm.weight'), size),
    matrix(at('ssm_out.weight'), hidden, values, type),
  ];
}

function feedForwardTensors(shape: DummyShape, types: Types, at: Naming): TensorInfo[] {
  const { hidden, ffn, experts } = shape;
  const mlp = [
    matrix(at('ffn_gate.weight'), ffn, hidden, types.others),
    matrix(at('ffn_up.weight'), ffn, hidden, types.others),
    matrix(at('ffn_down.weight'), hidden, ffn, types.others),
  ];
  if (experts === undefined) return mlp;
  const mixture = expertTensors(shape, experts, types.experts, at);
  if (!experts.beside) return mixture;
  const normed = (part: string) => vector(at(part), hidden);
  return [
    ...mlp,
    normed('post_ffw_norm_1.weight'),
    normed('pre_ffw_norm_2.weight'),
    ...mixture,
    normed('post_ffw_norm_2.weight'),
    normed('post_ffw_norm.weight'),
    vector(at('layer_output_scale.weight'), 1),
  ];
}

function expertTensors(
  { architecture, hidden }: DummyShape,
  { count, size, beside }: NonNullable<DummyShape['experts']>,
  type: DummyType,
  at: Naming,
): TensorInfo[] {
  const stack = (part: string, rows: number, columns: number): TensorInfo => {
    const one = matrix(at(part), rows, columns, type);
    return { ...one, shape: [count, ...one.shape] };
  };
  const stackedVector = (part: string, rows: number): TensorInfo => ({
    ...vector(at(part), rows),
    shape: [count, rows],
  });
  const biases = [
    vector(at('ffn_gate_inp.bias'), count),
    stackedVector('ffn_gate_exps.bias', size),
    stackedVector('ffn_up_exps.bias', size),
    stackedVector('ffn_down_exps.bias', hidden),
  ];
  const inner = [stack('ffn_gate_exps.weight', size, hidden), stack('ffn_up_exps.weight', size, hidden)];
  const scales = [vector(at('ffn_gate_inp.scale'), hidden), vector(at('ffn_down_exps.scale'), count)];
  return [
    matrix(at('ffn_gate_inp.weight'), count, hidden, 'F32'),
    ...(beside ? [stack('ffn_gate_up_exps.weight', 2 * size, hidden)] : inner),
    stack('ffn_down_exps.weight', hidden, size),
    ...(beside ? scales : []),
    ...(architecture === 'gpt-oss' ? biases : []),
  ];
}

function matrix(name: string, rows: number, columns: number, type: DummyType): TensorInfo {
  // Rows that do not fill whole super-blocks fall back, as in converters.
  const fits = columns % tensorLayouts[type].blockSize === 0;
  return { name, type: fits ? type : 'Q8_0', shape: [rows, columns] };
}

function vector(name: string, size: number): TensorInfo {
  return { name, type: 'F32', shape: [size] };
}
