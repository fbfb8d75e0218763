// A model of a real one's shape with random weights, made on the fly: what speed depends on, without a download.

import type { GgufFile } from '../weights/gguf.ts';
import type { GgufValue } from '../weights/gguf-values.ts';
import { rowBytes, type TensorType, tensorLayouts } from '../weights/tensor-type.ts';
import { columnsOf, type TensorInfo, type WeightSource } from '../weights/weight-source.ts';
import { type DummyShape, type DummyShapeName, dummyShapes } from './dummy-shapes.ts';

export const dummyTypes = ['Q8_0', 'Q4_0', 'Q4_K', 'Q6_K', 'F16', 'BF16'] as const;
export type DummyType = (typeof dummyTypes)[number];

/** `llama-3.2-1b:q4_0`; undefined where either half is unknown. */
export function parseDummy(text: string): { shape: DummyShapeName; type: DummyType } | undefined {
  const [shape = '', type = ''] = text.split(':');
  const known = dummyTypes.find((name) => name.toLowerCase() === type.toLowerCase());
  return shape in dummyShapes && known !== undefined
    ? { shape: shape as DummyShapeName, type: known }
    : undefined;
}

export function dummyModel(name: DummyShapeName, type: DummyType): GgufFile {
  const shape: DummyShape = dummyShapes[name];
  return {
    format: 'gguf',
    path: `${name}:${type}`,
    version: 3,
    metadata: new Map<string, GgufValue>([...architectureMetadata(name, shape), ...tokenizerMetadata(shape)]),
    weights: dummyWeights(dummyTensors(shape, type)),
  };
}

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

/** The smallest vocabulary that tools accept: every byte, then numbered tokens, no merges of use. */
function tokenizerMetadata({ vocab }: DummyShape): [string, GgufValue][] {
  const bytes = Array.from({ length: 256 }, (_, byte) => byteCharacter(byte));
  const tokens = [...bytes, ...Array.from({ length: vocab - 256 }, (_, index) => `tok${index}`)];
  return [
    ['tokenizer.ggml.model', 'gpt2'],
    ['tokenizer.ggml.pre', 'gpt-2'],
    ['tokenizer.ggml.tokens', tokens],
    ['tokenizer.ggml.token_type', new Int32Array(vocab).fill(1)],
    ['tokenizer.ggml.merges', ['a b']],
    ['tokenizer.ggml.bos_token_id', vocab - 2],
    ['tokenizer.ggml.eos_token_id', vocab - 1],
  ];
}

/** GPT-2's printable stand-in for a byte. */
function byteCharacter(byte: number): string {
  const printable = (b: number) => (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || b >= 174;
  if (printable(byte)) return String.fromCharCode(byte);
  let rank = 0;
  for (let b = 0; b < byte; b++) if (!printable(b)) rank++;
  return String.fromCharCode(256 + rank);
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

function dummyWeights(tensors: readonly TensorInfo[]): WeightSource {
  const byName = new Map(tensors.map((tensor) => [tensor.name, tensor]));
  const patterns = new Map<string, Uint8Array>();
  return {
    tensors: byName,
    readRows(name, first, count, into) {
      const tensor = byName.get(name);
      if (tensor === undefined) throw new Error(`${name} is no tensor of this model`);
      if (tensor.shape.length === 1) {
        new Float32Array(into.buffer, into.byteOffset, into.byteLength / 4).fill(
          name.endsWith('.bias') ? 0 : 1,
        );
        return;
      }
      const columns = columnsOf(tensor);
      const key = `${tensor.type} ${columns}`;
      const pattern = patterns.get(key) ?? randomRows(tensor.type, columns);
      patterns.set(key, pattern);
      // Rows of the pattern over and over, from another one on for each tensor.
      const bytes = rowBytes(tensor.type, columns);
      for (let row = 0; row < count; row++) {
        const from = ((first + row + name.length * 7) % PATTERN_ROWS) * bytes;
        into.set(pattern.subarray(from, from + bytes), row * bytes);
      }
    },
    close() {},
  };
}

const PATTERN_ROWS = 509;

/** Rows of random codes whose scale gives values of about 1 / sqrt(columns). */
function randomRows(type: TensorType, columns: number): Uint8Array {
  const { blockBytes } = tensorLayouts[type];
  const bytes = new Uint8Array(PATTERN_ROWS * rowBytes(type, columns));
  let state = 1;
  for (let at = 0; at < bytes.length; at++) {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    bytes[at] = state >>> 24;
  }
  const view = new DataView(bytes.buffer);
  const size = columns ** -0.5;
  for (let at = 0; at < bytes.length; at += blockBytes) setScales(type, view, at, size);
  return bytes;
}

function setScales(type: TensorType, view: DataView, at: number, size: number): void {
  const code = view.getUint8(at);
  const signed = (code / 127.5 - 1) * 1.7 * size;
  if (type === 'Q8_0') view.setUint16(at, halfBits(size / 73), true);
  else if (type === 'Q4_0') view.setUint16(at, halfBits(size / 4.6), true);
  else if (type === 'Q4_K') {
    view.setUint16(at, halfBits(size / (4.6 * 32)), true);
    view.setUint16(at + 2, halfBits((7.5 * size) / (4.6 * 32)), true);
  } else if (type === 'Q6_K') view.setUint16(at + 208, halfBits(size / (18 * 73)), true);
  else if (type === 'F16') view.setUint16(at, halfBits(signed), true);
  else if (type === 'BF16') {
    const scratch = new DataView(new ArrayBuffer(4));
    scratch.setFloat32(0, signed);
    view.setUint16(at, scratch.getUint16(0), true);
  }
}

/** Half-precision bits of a normal number, cut rather than rounded. */
function halfBits(value: number): number {
  const scratch = new DataView(new ArrayBuffer(4));
  scratch.setFloat32(0, value);
  const bits = scratch.getUint32(0);
  const exponent = ((bits >>> 23) & 0xff) - 112;
  const sign = (bits >>> 16) & 0x8000;
  // Below the normal range the mantissa shifts right, its leading one included.
  if (exponent <= 0) return sign | (((bits & 0x7fffff) | 0x800000) >>> Math.min(31, 14 - exponent));
  return sign | (exponent << 10) | ((bits >>> 13) & 0x3ff);
}
