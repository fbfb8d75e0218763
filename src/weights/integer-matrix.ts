// Matrices quantized to integers, weight = scale * (code - zero) with a scale and a zero for each group of inputs, as GPTQ, AWQ
// and compressed-tensors store them. They are presented in MLX's types, which hold the same numbers exactly:
//
//   weight = scale * code + bias, bias = -scale * zero         a 16-bit scale times a zero of up to 9 bits fits a float32
//
// Where all zeros are the middle of the codes, a power of two, biases are as narrow as scales.
// Groups whose inputs are scattered (GPTQ's act-order) have no such type: their weights become floats as wide as their scales.

import { type DerivedTensor, partFault } from './derived-weights.ts';
import { encodeFloats } from './quants/floats.ts';
import { floatType, type SafetensorsEntry } from './safetensors.ts';
import { mlxType, type TensorType, tensorLayouts } from './tensor-type.ts';

type FloatType = 'F32' | 'F16' | 'BF16';

export type CodeBits = 2 | 3 | 4 | 5 | 6 | 8;

/** Rows are outputs, columns inputs. */
interface IntegerMatrix {
  readonly name: string;
  readonly rows: number;
  /** A row of codes takes whole words of 32 bits. */
  readonly columns: number;
  readonly bits: CodeBits;
  readonly groups: number;
  /** Columns per group, or the group of each column. */
  readonly grouping: number | Int32Array;
  readonly scales: SafetensorsEntry;
  /** Whether all zeros are 2^(bits - 1). */
  readonly symmetric: boolean;
  readonly parts: readonly SafetensorsEntry[];
  readonly read: (first: number, count: number) => IntegerRows;
}

export interface IntegerRows {
  /** The codes of each row as bits, the first lowest. */
  readonly words: Int32Array;
  readonly scales: Float32Array;
  readonly zeros: Int32Array;
}

const groupSizes = [128, 64, 32] as const;

export function integerTensor(matrix: IntegerMatrix): DerivedTensor {
  const { name, rows, columns, bits, parts } = matrix;
  const size = groupSizes.find((one) => isGrouped(matrix, one));
  const shape = [rows, columns];
  if (size === undefined) {
    const type = floatType(matrix.scales.dtype) ?? 'F32';
    return {
      name,
      type,
      shape,
      parts,
      fill: (first, count, into) => fillFloats(matrix, matrix.read(first, count), type, into),
    };
  }
  const scale = (matrix.symmetric ? floatType(matrix.scales.dtype) : undefined) ?? 'F32';
  const type = mlxType({ bits, groupSize: size, scale });
  return {
    name,
    type,
    shape,
    parts,
    fill: (first, count, into) => fillGroups(matrix, matrix.read(first, count), type, scale, into),
  };
}

/** Whether `size` neighbouring columns always share a scale. */
function isGrouped({ columns, grouping }: IntegerMatrix, size: number): boolean {
  if (columns % size !== 0) return false;
  if (typeof grouping === 'number') return grouping % size === 0 || grouping >= columns;
  return grouping.every((group, column) => group === grouping[column - (column % size)]);
}

function groupAt({ grouping }: IntegerMatrix, column: number): number {
  return typeof grouping === 'number' ? Math.floor(column / grouping) : (grouping[column] as number);
}

function fillGroups(
  matrix: IntegerMatrix,
  { words: codes, scales, zeros }: IntegerRows,
  type: TensorType,
  scaleType: FloatType,
  into: Uint8Array,
): void {
  const { columns, groups } = matrix;
  const { blockSize, blockBytes } = tensorLayouts[type];
  const perRow = columns / blockSize;
  const groupOfBlock = Array.from({ length: perRow }, (_, block) => groupAt(matrix, block * blockSize));
  const headers = groupHeaders(matrix, scaleType, scales, zeros);
  const headerWords = headers.length / scales.length;
  const codeWords = blockBytes / 4 - headerWords;
  const words = new Int32Array(into.length / 4);
  for (let to = 0, from = 0, row = 0; to < words.length; row++) {
    for (let block = 0; block < perRow; block++) {
      const header = (row * groups + (groupOfBlock[block] as number)) * headerWords;
      for (let i = 0; i < headerWords; i++) words[to++] = headers[header + i] as number;
      for (const end = to + codeWords; to < end; ) words[to++] = codes[from++] as number;
    }
  }
  into.set(new Uint8Array(words.buffer));
}

function groupHeaders(
  matrix: IntegerMatrix,
  type: FloatType,
  scales: Float32Array,
  zeros: Int32Array,
): Int32Array {
  const pairs = new Float32Array(2 * scales.length);
  for (let group = 0; group < scales.length; group++) {
    pairs[2 * group] = scales[group] as number;
    pairs[2 * group + 1] = -(scales[group] as number) * (zeros[group] as number);
  }
  if (type === 'F32') return new Int32Array(pairs.buffer);
  const narrow = encodeFloats(type, pairs);
  if (narrow === undefined) throw partFault(matrix.scales, `makes weights too large for ${type}`);
  return new Int32Array(narrow.buffer);
}

/** Rounded once from the exact product, as kernels that dequantize to such floats do. */
function fillFloats(
  matrix: IntegerMatrix,
  { words, scales, zeros }: IntegerRows,
  type: FloatType,
  into: Uint8Array,
): void {
  const { columns, groups, bits } = matrix;
  const codes = 2 ** bits;
  const firstMeanings = Int32Array.from({ length: columns }, (_, column) => groupAt(matrix, column) * codes);
  const wordsPerRow = (columns * bits) / 32;
  const rows = words.length / wordsPerRow;
  const values = type === 'F32' ? new Float32Array(rows * columns) : new Uint16Array(rows * columns);
  for (let row = 0; row < rows; row++) {
    const meanings = encodeFloats(type, codeMeanings(groups, codes, row * groups, scales, zeros));
    if (meanings === undefined) throw partFault(matrix.scales, `makes weights too large for ${type}`);
    const own = words.subarray(row * wordsPerRow, (row + 1) * wordsPerRow);
    const to = row * columns;
    for (let column = 0; column < columns; column++) {
      const code = codeAt(own, column * bits, bits);
      values[to + column] = meanings[(firstMeanings[column] as number) + code] as number;
    }
  }
  into.set(new Uint8Array(values.buffer));
}

/** A table of values per group: fewer products than weights. */
function codeMeanings(
  groups: number,
  codes: number,
  first: number,
  scales: Float32Array,
  zeros: Int32Array,
): Float32Array {
  const meanings = new Float32Array(groups * codes);
  for (let group = 0; group < groups; group++) {
    const scale = scales[first + group] as number;
    const zero = zeros[first + group] as number;
    for (let code = 0; code < codes; code++) meanings[group * codes + code] = scale * (code - zero);
  }
  return meanings;
}

/** The code at `bit`, which may reach into the next word. */
export function codeAt(words: Int32Array, bit: number, bits: CodeBits): number {
  const at = bit >> 5;
  const shift = bit & 31;
  const low = (words[at] as number) >>> shift;
  const high = shift + bits > 32 ? (words[at + 1] as number) << (32 - shift) : 0;
  return (low | high) & (2 ** bits - 1);
}
