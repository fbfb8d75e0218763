// A model of a known shape with random weights: what speed depends on, without a download.

import { byteCharacters } from '../text/bpe.ts';
import type { GgufFile } from '../weights/gguf.ts';
import type { GgufValue } from '../weights/gguf-metadata.ts';
import { type DummyShape, type DummyShapeName, dummyShapes, seesAll } from './dummy-shapes.ts';
import { CONVOLUTION, dummyTensors } from './dummy-tensors.ts';
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

const LOGIT_CAP = 30;
const NORMAL = 1;
const CONTROL = 3;
const chatTemplate =
  "{% for message in messages %}{{ message.role + ': ' + message.content + '\n' }}{% endfor %}" +
  "{% if add_generation_prompt %}{{ 'assistant: ' }}{% endif %}";

export function dummyModel(name: DummyShapeName, type: DummyType, layers?: number): GgufFile {
  const whole: DummyShape = dummyShapes[name];
  const shape = { ...whole, layers: layers ?? whole.layers };
  return {
    format: 'gguf',
    path: `${name}:${type}`,
    version: 3,
    metadata: new Map<string, GgufValue>([
      ...architectureMetadata(name, shape),
      ...fileTypeMetadata(type),
      ...tokenizerMetadata(shape),
    ]),
    weights: dummyWeights(dummyTensors(shape, type)),
  };
}

function fileTypeMetadata(type: DummyType): [string, GgufValue][] {
  const number = fileTypes[type];
  return number === undefined ? [] : [['general.file_type', number]];
}

/** GGUF's numbers of file types; some programs require one. MLX's types have none. */
const fileTypes: Readonly<Partial<Record<DummyType, number>>> = {
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
  MXFP4: 38,
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
    ...(shape.gatedDeltaNet === undefined ? {} : deltaMetadata(shape.gatedDeltaNet)),
    ...(shape.window === undefined ? {} : { 'attention.sliding_window': shape.window }),
    ...(shape.global === undefined ? {} : globalMetadata(shape, shape.global)),
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

/** The plain keys are those of global layers. No layer shares its KV cache. */
function globalMetadata(
  shape: DummyShape,
  global: NonNullable<DummyShape['global']>,
): Record<string, GgufValue> {
  const everyLayer = Array.from({ length: shape.layers }, (_, layer) => seesAll(shape, layer));
  return {
    'attention.sliding_window_pattern': Uint32Array.from(everyLayer, (all) => (all ? 0 : 1)),
    'attention.head_count_kv': Uint32Array.from(everyLayer, (all) => (all ? global.kvHeads : shape.kvHeads)),
    'attention.key_length': global.headSize,
    'attention.value_length': global.headSize,
    'rope.dimension_count': global.headSize,
    'rope.freq_base': global.ropeBase,
    'attention.key_length_swa': shape.headSize,
    'attention.value_length_swa': shape.headSize,
    'rope.dimension_count_swa': shape.headSize,
    'rope.freq_base_swa': shape.ropeBase,
    'attention.shared_kv_layers': 0,
    embedding_length_per_layer_input: 0,
    final_logit_softcapping: LOGIT_CAP,
  };
}

function deltaMetadata({
  keyHeads,
  valueHeads,
  size,
  interval,
}: NonNullable<DummyShape['gatedDeltaNet']>): Record<string, GgufValue> {
  return {
    // Sections for images; llama.cpp requires them.
    'rope.dimension_sections': Int32Array.of(11, 11, 10, 0),
    'ssm.conv_kernel': CONVOLUTION,
    'ssm.state_size': size,
    'ssm.group_count': keyHeads,
    'ssm.time_step_rank': valueHeads,
    'ssm.inner_size': valueHeads * size,
    full_attention_interval: interval,
  };
}

/** The smallest vocabulary that tools accept: every byte, then numbered tokens that no text has. */
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
