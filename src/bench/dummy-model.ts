// A model of a real one's shape with random weights, made on the fly: what speed depends on, without a download.

import { byteCharacters } from '../text/byte-characters.ts';
import type { GgufFile } from '../weights/gguf.ts';
import type { GgufValue } from '../weights/gguf-values.ts';
import { tensorLayouts } from '../weights/tensor-type.ts';
import type { TensorInfo } from '../weights/weight-source.ts';
import { type DummyShape, type DummyShapeName, dummyShapes } from './dummy-shapes.ts';
import { type DummyType, dummyTypes, dummyWeights } from './dummy-weights.ts';

export interface Dummy {
  readonly shape: DummyShapeName;
  readonly type: DummyType;
}

/** `llama-3.2-1b:q4_0`; undefined where either half is unknown. */
export function parseDummy(text: string): Dummy | undefined {
  const [shape = '', type = '', ...rest] = text.split(':');
  const known = dummyTypes.find((name) => name.toLowerCase() === type.toLowerCase());
  return Object.hasOwn(dummyShapes, shape) && known !== undefined && rest.length === 0
    ? { shape: shape as DummyShapeName, type: known }
    : undefined;
}

/** Tokens that a gated delta net convolves. */
const CONVOLUTION = 4;
const NORMAL = 1;
const CONTROL = 3;
const chatTemplate =
  "{% for message in messages %}{{ message.role + ': ' + message.content + '\n' }}{% endfor %}" +
  "{% if add_generation_prompt %}{{ 'assistant: ' }}{% endif %}";

/** With all its layers, or the first so many. */
export function dummyModel(name: DummyShapeName, type: DummyType, layers?: number): GgufFile {
  const whole: DummyShape = dummyShapes[name];
  const shape = { ...whole, layers: layers ?? whole.layers };
  return {
    format: 'gguf',
    path: `${name}:${type}`,
    version: 3,
    metadata: new Map<string, GgufValue>([
      ...architectureMetadata(name, shape),
      ['general.file_type', fileTypes[type]],
      ...tokenizerMetadata(shape),
    ]),
    weights: dummyWeights(dummyTensors(shape, type)),
  };
}

/** GGUF's numbers for what a file mainly holds; some programs read no file without one. */
const fileTypes: Readonly<Record<DummyType, number>> = {
  F32: 0,
  F16: 1,
  Q4_0: 2,
  Q4_1: 3,
  Q8_0: 7,
  Q5_0: 8,
  Q5_1: 9,
  Q2_K: 10,
  Q3_K: 12,
  Q4_K: 15,
  Q5_K: 17,
  Q6_K: 18,
  IQ4_NL: 25,
  IQ4_XS: 30,
  BF16: 32,
};

function architectureMetadata(name: string, shape: DummyShape): [string, GgufValue][] {
  const { architecture } = shape;
  const own: Record<string, GgufValue> = {
    block_count: shape.layers,
    context_length: shape.context,
    embedding_length: shape.hidden,
    feed_forward_length: shape.ffn,
    'attention.head_count': shape.heads,
    'attention.head_count_kv': shape.kvHeads,
    'attention.layer_norm_rms_epsilon': 1e-5,
    'rope.freq_base': shape.ropeBase,
    'attention.key_length': shape.headSize,
    'attention.value_length': shape.headSize,
    'rope.dimension_count': shape.rotated ?? shape.headSize,
    vocab_size: shape.vocab,
    ...(shape.experts === undefined ? {} : expertMetadata(shape.experts)),
    ...(shape.deltaNet === undefined ? {} : deltaMetadata(shape.deltaNet)),
    ...(shape.window === undefined ? {} : { 'attention.sliding_window': shape.window }),
  };
  return [
    ['general.architecture', architecture],
    ['general.name', `random weights in the shape of ${name}`],
    ...Object.entries(own).map(([key, value]): [string, GgufValue] => [`${architecture}.${key}`, value]),
  ];
}

function expertMetadata({ count, used, size }: NonNullable<DummyShape['experts']>): Record<string, number> {
  return { expert_count: count, expert_used_count: used, expert_feed_forward_length: size };
}

function deltaMetadata({
  keyHeads,
  valueHeads,
  size,
  interval,
}: NonNullable<DummyShape['deltaNet']>): Record<string, GgufValue> {
  return {
    // Pairs that images turn by; in texts all are turned alike, but llama.cpp wants them told.
    'rope.dimension_sections': Int32Array.of(11, 11, 10, 0),
    'ssm.conv_kernel': CONVOLUTION,
    'ssm.state_size': size,
    'ssm.group_count': keyHeads,
    'ssm.time_step_rank': valueHeads,
    'ssm.inner_size': valueHeads * size,
    full_attention_interval: interval,
  };
}

/** The smallest vocabulary that tools accept: every byte, then numbered tokens that no text holds, no merges of use. */
function tokenizerMetadata({ vocab }: DummyShape): [string, GgufValue][] {
  const merged = 'th';
  const special = ['<|begin|>', '<|end|>'];
  const numbered = vocab - byteCharacters.length - 1 - special.length;
  const tokens = [
    ...byteCharacters,
    merged,
    ...Array.from({ length: numbered }, (_, index) => `<${index}>`),
    ...special,
  ];
  return [
    ['tokenizer.ggml.model', 'gpt2'],
    ['tokenizer.ggml.pre', 'gpt-2'],
    ['tokenizer.ggml.tokens', tokens],
    ['tokenizer.ggml.token_type', new Int32Array(vocab).fill(NORMAL).fill(CONTROL, -special.length)],
    ['tokenizer.ggml.merges', ['t h']],
    ['tokenizer.ggml.bos_token_id', vocab - 2],
    ['tokenizer.ggml.eos_token_id', vocab - 1],
    ['tokenizer.ggml.add_bos_token', false],
    ['tokenizer.chat_template', chatTemplate],
  ];
}

function dummyTensors(shape: DummyShape, type: DummyType): TensorInfo[] {
  const { hidden, vocab } = shape;
  return [
    matrix('token_embd.weight', vocab, hidden, type),
    ...Array.from({ length: shape.layers }, (_, layer) => layerTensors(shape, type, layer)).flat(),
    vector('output_norm.weight', hidden),
    ...(shape.tied ? [] : [matrix('output.weight', vocab, hidden, type)]),
  ];
}

type Naming = (part: string) => string;

function layerTensors(shape: DummyShape, type: DummyType, layer: number): TensorInfo[] {
  const { architecture, hidden, ffn, experts, deltaNet } = shape;
  const at = (part: string) => `blk.${layer}.${part}`;
  const feedForward = [
    matrix(at('ffn_gate.weight'), ffn, hidden, type),
    matrix(at('ffn_up.weight'), ffn, hidden, type),
    matrix(at('ffn_down.weight'), hidden, ffn, type),
  ];
  const attends = deltaNet === undefined || (layer + 1) % deltaNet.interval === 0;
  const named = architecture === 'qwen35' || architecture === 'gpt-oss';
  return [
    vector(at('attn_norm.weight'), hidden),
    ...(attends ? attentionTensors(shape, type, at) : deltaTensors(shape, deltaNet, type, at)),
    vector(at(named ? 'post_attention_norm.weight' : 'ffn_norm.weight'), hidden),
    ...(experts === undefined ? feedForward : expertTensors(shape, experts, type, at)),
  ];
}

function attentionTensors(shape: DummyShape, type: DummyType, at: Naming): TensorInfo[] {
  const { architecture, hidden, heads, kvHeads, headSize, deltaNet } = shape;
  const rows = { q: heads * headSize, k: kvHeads * headSize, v: kvHeads * headSize };
  const biases = Object.entries(rows).map(([part, count]) => vector(at(`attn_${part}.bias`), count));
  const headNorms = [vector(at('attn_q_norm.weight'), headSize), vector(at('attn_k_norm.weight'), headSize)];
  const sinks = [vector(at('attn_output.bias'), hidden), vector(at('attn_sinks.weight'), heads)];
  return [
    // Hybrids keep the gate of each head beside its query.
    matrix(at('attn_q.weight'), (deltaNet === undefined ? 1 : 2) * rows.q, hidden, type),
    matrix(at('attn_k.weight'), rows.k, hidden, type),
    matrix(at('attn_v.weight'), rows.v, hidden, type),
    ...(architecture === 'qwen2' || architecture === 'gpt-oss' ? biases : []),
    ...(architecture === 'qwen3moe' || architecture === 'qwen35' ? headNorms : []),
    matrix(at('attn_output.weight'), hidden, rows.q, type),
    ...(architecture === 'gpt-oss' ? sinks : []),
  ];
}

function deltaTensors(
  { hidden }: DummyShape,
  { keyHeads, valueHeads, size }: NonNullable<DummyShape['deltaNet']>,
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

function expertTensors(
  { architecture, hidden }: DummyShape,
  { count, size }: NonNullable<DummyShape['experts']>,
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
  return [
    // As converters leave it.
    matrix(at('ffn_gate_inp.weight'), count, hidden, 'F32'),
    stack('ffn_gate_exps.weight', size, hidden),
    stack('ffn_up_exps.weight', size, hidden),
    stack('ffn_down_exps.weight', hidden, size),
    ...(architecture === 'gpt-oss' ? biases : []),
  ];
}

function matrix(name: string, rows: number, columns: number, type: DummyType): TensorInfo {
  // Rows that are no whole super-blocks fall back, as converters do.
  const fits = columns % tensorLayouts[type].blockSize === 0;
  return { name, type: fits ? type : 'Q8_0', shape: [rows, columns] };
}

function vector(name: string, size: number): TensorInfo {
  return { name, type: 'F32', shape: [size] };
}
