// Random weights of any GGUF type and of MLX's most common ones; a row is the same whenever it is read. Values have mean 0 and
// spread 1 / sqrt(columns), so that a product keeps the size of its input.

import { toHalf } from '../weights/quants/floats.ts';
import { rowBytes, type TensorType, tensorLayouts } from '../weights/tensor-type.ts';
import { columnsOf, type TensorInfo, type WeightSource } from '../weights/weight-source.ts';

/** A 16-bit field of a block (half; BF16 for MLX): its offset, and its value for weights with a spread of 1. */
interface ScaleField {
  readonly at: number;
  readonly value: number;
}

/**
 * `spread`: of a block's values with random codes and a scale of 1; `minimum`: what takes their mean to zero, in
 * units of the scale.
 */
const scaled = (at: number, spread: number, minimum?: ScaleField): readonly ScaleField[] => [
  { at, value: 1 / spread },
  ...(minimum === undefined ? [] : [{ at: minimum.at, value: minimum.value / spread }]),
];

const blockScales = {
  Q8_0: scaled(0, 73.9),
  Q4_0: scaled(0, 4.64),
  Q4_1: scaled(0, 4.61, { at: 2, value: -7.5 }),
  Q5_0: scaled(0, 9.25),
  Q5_1: scaled(0, 9.23, { at: 2, value: -15.5 }),
  Q2_K: scaled(80, 13.9, { at: 82, value: 1.5 }),
  Q3_K: scaled(108, 43.3),
  Q4_K: scaled(0, 258, { at: 2, value: 7.5 }),
  Q5_K: scaled(0, 527, { at: 2, value: 15.5 }),
  Q6_K: scaled(208, 1365),
  IQ4_NL: scaled(0, 67.4),
  IQ4_XS: scaled(0, 1247),
  MLX4_G64_BF16: scaled(0, 4.61, { at: 2, value: -7.5 }),
  MLX8_G64_BF16: scaled(0, 73.9, { at: 2, value: -127.5 }),
} as const satisfies Partial<Record<TensorType, readonly ScaleField[]>>;

/** With a power of two of 1, its only scale. */
const FOUR_BIT_SPREAD = 2.926;

const floatBits = {
  F32: (value: number) => float32Bits(value),
  F16: toHalf,
  BF16: (value: number) => float32Bits(value) >>> 16,
} as const satisfies Partial<Record<TensorType, (value: number) => number>>;

type BlockType = keyof typeof blockScales;
type FloatType = keyof typeof floatBits;
export type DummyType = BlockType | FloatType | 'MXFP4';

export const dummyTypes = [
  ...Object.keys(blockScales),
  'MXFP4',
  ...Object.keys(floatBits),
] as readonly DummyType[];

/** Norms and other factors. */
const factorNames = /(norm(_\d)?|layer_output_scale|rope_freqs)\.weight$|\.scale$/;
/** Exponents of decay: recurrent states would grow without end if one were positive. */
const decayNames = /\.ssm_a$/;

/** Rows start at distinct offsets; the odd stride meets each once. */
const STARTS = 2 ** 22;
const STRIDE = 2654435761;

export function dummyWeights(tensors: readonly TensorInfo[]): WeightSource {
  const byName = new Map(tensors.map((tensor) => [tensor.name, tensor]));
  const longest = Math.max(...tensors.map((tensor) => rowBytes(tensor.type, columnsOf(tensor))));
  const random = randomBytes(STARTS + longest);
  return {
    tensors: byName,
    readRows(name, first, count, into) {
      const tensor = byName.get(name);
      if (tensor === undefined) throw new Error(`${name} is no tensor of this model`);
      const bytes = rowBytes(tensor.type, columnsOf(tensor));
      const fill = rowFiller(tensor);
      const seed = textHash(name);
      for (let row = 0; row < count; row++) {
        const start = (seed + Math.imul(first + row, STRIDE)) & (STARTS - 1);
        fill(random.subarray(start, start + bytes), into.subarray(row * bytes, (row + 1) * bytes));
      }
    },
    close() {},
  };
}

type FillRow = (random: Uint8Array, row: Uint8Array) => void;

function rowFiller(tensor: TensorInfo): FillRow {
  const columns = columnsOf(tensor);
  const type = tensor.type as DummyType;
  const constant = factorNames.test(tensor.name) ? 1 : decayNames.test(tensor.name) ? -1 : undefined;
  if (constant !== undefined) {
    const values = new Uint8Array(new Float32Array(columns).fill(constant).buffer);
    return (_, row) => row.set(values);
  }
  const spread = columns ** -0.5;
  if (type === 'MXFP4') return fourBitFiller(spread);
  return type in floatBits
    ? floatFiller(type as FloatType, columns, spread)
    : blockFiller(type as BlockType, spread);
}

function blockFiller(type: BlockType, spread: number): FillRow {
  const { blockBytes } = tensorLayouts[type];
  const toBits = type.endsWith('_BF16') ? floatBits.BF16 : toHalf;
  const fields = blockScales[type].map(({ at, value }) => ({ at, bits: toBits(value * spread) }));
  // Codes reach one step further down than up: without a minimum, scales of either sign balance that.
  const signBit = fields.length === 1 ? 0x80 : 0;
  return (random, row) => {
    row.set(random);
    for (const { at, bits } of fields) {
      for (let place = at; place < row.length; place += blockBytes) {
        row[place] = bits & 0xff;
        row[place + 1] = (bits >>> 8) ^ ((row[place + 1] as number) & signBit);
      }
    }
  };
}

/** Each block takes one of the two powers around the wanted scale, in proportions that give the right spread. */
function fourBitFiller(spread: number): FillRow {
  const { blockBytes } = tensorLayouts.MXFP4;
  const scale = spread / FOUR_BIT_SPREAD;
  const power = Math.floor(Math.log2(scale));
  // Squares of the powers: 1 and 4 times that of the lower one.
  const largerOnes = (256 * ((scale / 2 ** power) ** 2 - 1)) / 3;
  return (random, row) => {
    row.set(random);
    for (let place = 0; place < row.length; place += blockBytes) {
      row[place] = 127 + power + ((row[place] as number) < largerOnes ? 1 : 0);
    }
  };
}

function floatFiller(type: FloatType, columns: number, spread: number): FillRow {
  const FloatArray = type === 'F32' ? Uint32Array : Uint16Array;
  const values = new FloatArray(256).map((_, code) => floatBits[type](((code - 127.5) / 73.9) * spread));
  const floats = new FloatArray(columns);
  const bytes = new Uint8Array(floats.buffer);
  return (random, row) => {
    for (let i = 0; i < columns; i++) floats[i] = values[random[i] as number] as number;
    row.set(bytes);
  };
}

/** Marsaglia's xorshift. */
function randomBytes(length: number): Uint8Array {
  const words = new Uint32Array(Math.ceil(length / 4));
  let state = 1;
  for (let at = 0; at < words.length; at++) {
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
    words[at] = state;
  }
  return new Uint8Array(words.buffer, 0, length);
}

function textHash(text: string): number {
  let hash = 0;
  for (let at = 0; at < text.length; at++) hash = (Math.imul(hash, 31) + text.charCodeAt(at)) | 0;
  return hash;
}

function float32Bits(value: number): number {
  return new Uint32Array(Float32Array.of(value).buffer)[0] as number;
}
