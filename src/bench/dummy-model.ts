// A model of a real one's shape with random weights, made on the fly: what speed depends on, without a download.

import { byteCharacters } from '../text/byte-characters.ts';
import type { GgufFile } from '../weights/gguf.ts';
import type { GgufValue } from '../weights/gguf-values.ts';
import { tensorLayouts } from '../weights/tensor-type.ts';
import type { TensorInfo } from '../weights/weight-source.ts';
import { type DummyShape, type DummyShapeName, dummyShapes } from './dummy-shapes.ts';
import { type DummyType, dummyTypes, dummyWeights } from './dummy-weights.ts';

/** `llama-3.2-1b:q4_0`; undefined where either half is unknown. */
export function parseDummy(text: string): { shape: DummyShapeName; type: DummyType } | undefined {
  const [shape = '', type = '', ...rest] = text.split(':');
  const known = dummyTypes.find((name) => name.toLowerCase() === type.toLowerCase());
  return Object.hasOwn(dummyShapes, shape) && known !== undefined && rest.length === 0
    ? { shape: shape as DummyShapeName, type: known }
    : undefined;
}

const NORMAL = 1;
const CONTROL = 3;
const chatTemplate =
  "{% for message in messages %}{{ message.role + ': ' + message.content + '\n' }}{% endfor %}" +
  "{% if add_generation_prompt %}{{ 'assistant: ' }}{% endif %}";

export function dummyModel(name: DummyShapeName, type: DummyType): GgufFile {
  const shape: DummyShape = dummyShapes[name];
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
  const own: Record<string, number> = {
    block_count: shape.layers,
    context_length: shape.context,
    embedding_length: shape.hidden,
    feed_forward_length: shape.ffn,
    'attention.head_count': shape.heads,
    'attention.head_count_kv': shape.kvHeads,
    'attention.layer_norm_rms_epsilon': 1e-5,
    'rope.freq_base': shape.ropeBase,
    'rope.dimension_count': shape.headSize,
    vocab_size: shape.vocab,
  };
  return [
    ['general.architecture', architecture],
    ['general.name', `random weights in the shape of ${name}`],
    ...Object.entries(own).map(([key, value]): [string, GgufValue] => [`${architecture}.${key}`, value]),
  ];
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
  const { hidden, ffn, heads, kvHeads, headSize, vocab } = shape;
  const matrix = (name: string, rows: number, columns: number): TensorInfo => ({
    name,
    // Rows that are no whole super-blocks fall back, as converters do.
    type: columns % tensorLayouts[type].blockSize === 0 ? type : 'Q8_0',
    shape: [rows, columns],
  });
  const vector = (name: string, size: number): TensorInfo => ({ name, type: 'F32', shape: [size] });
  const layers = Array.from({ length: shape.layers }, (_, layer) => {
    const at = (part: string) => `blk.${layer}.${part}`;
    const biases = shape.architecture === 'qwen2';
    return [
      vector(at('attn_norm.weight'), hidden),
      matrix(at('attn_q.weight'), heads * headSize, hidden),
      matrix(at('attn_k.weight'), kvHeads * headSize, hidden),
      matrix(at('attn_v.weight'), kvHeads * headSize, hidden),
      ...(biases
        ? [
            vector(at('attn_q.bias'), heads * headSize),
            vector(at('attn_k.bias'), kvHeads * headSize),
            vector(at('attn_v.bias'), kvHeads * headSize),
          ]
        : []),
      matrix(at('attn_output.weight'), hidden, heads * headSize),
      vector(at('ffn_norm.weight'), hidden),
      matrix(at('ffn_gate.weight'), ffn, hidden),
      matrix(at('ffn_up.weight'), ffn, hidden),
      matrix(at('ffn_down.weight'), hidden, ffn),
    ];
  });
  return [
    matrix('token_embd.weight', vocab, hidden),
    ...layers.flat(),
    vector('output_norm.weight', hidden),
    ...(shape.tied ? [] : [matrix('output.weight', vocab, hidden)]),
  ];
}
