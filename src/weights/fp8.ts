// Models in floats of eight bits: a weight and its scales are two tensors of a safetensors model, presented as one. There is
// a scale for the whole tensor, for each row, or for each block of rows and columns; whatever its name, a weight is scale * value.
//
//   X.weight                                 F8_E4M3 [rows, columns]   ┐
//   X.weight_scale_inv or X.weight_scale     float                     ┴─> per group { float32 scale, 32 or 128 bytes }

import {
  type DerivedTensor,
  derivedWeights,
  partFault,
  readFloatPart,
  readPart,
  requireFloats,
  requireShape,
} from './derived-weights.ts';
import type { JsonObject } from './json-file.ts';
import { ModelFileError } from './model-file-error.ts';
import { shown } from './quantization-settings.ts';
import type { Safetensors, SafetensorsEntry } from './safetensors.ts';
import { tensorLayouts } from './tensor-type.ts';
import type { WeightSource } from './weight-source.ts';

export interface ScaleBlock {
  readonly rows: number;
  readonly columns: number;
}

/** Scales of a stack of matrices: blocks row by row, matrix after matrix. */
interface ScaleLayout extends ScaleBlock {
  readonly rowsPerMatrix: number;
  readonly scalesPerRow: number;
}

type F8Type = 'F8_G32' | 'F8_G128';

export function fp8Weights(model: Safetensors, block: ScaleBlock | undefined): WeightSource {
  return derivedWeights(model, fp8Tensors(model, block));
}

export function fp8Tensors(model: Safetensors, block: ScaleBlock | undefined): readonly DerivedTensor[] {
  const tensors: DerivedTensor[] = [];
  for (const weight of model.entries.values()) {
    if (weight.dtype !== 'F8_E4M3' || weight.bytes === 0) continue;
    const scale = model.entries.get(`${weight.name}_scale_inv`) ?? model.entries.get(`${weight.name}_scale`);
    // A weight without a scale is unlisted: an error where it is read.
    if (scale !== undefined) tensors.push(scaledTensor(weight, scale, block));
  }
  return tensors;
}

function scaledTensor(
  weight: SafetensorsEntry,
  scale: SafetensorsEntry,
  block: ScaleBlock | undefined,
): DerivedTensor {
  if (weight.shape.length < 2) throw partFault(weight, 'has no rows');
  requireFloats(scale);
  const columns = weight.shape.at(-1) as number;
  const layout = scaleLayout(weight, scale, block);
  const type = groupType(weight, columns, layout);
  return {
    name: weight.name,
    type,
    shape: weight.shape,
    parts: [weight, scale],
    fill(first, count, into) {
      const codes = readCodes(weight, columns, first, count);
      fillGroups(type, codes, scalesOfRows(scale, layout, columns, type, first, count), into);
    },
  };
}

function scaleLayout(
  weight: SafetensorsEntry,
  scale: SafetensorsEntry,
  block: ScaleBlock | undefined,
): ScaleLayout {
  const columns = weight.shape.at(-1) as number;
  const rowsPerMatrix = weight.shape.at(-2) as number;
  const leading = weight.shape.slice(0, -1);
  const count = scale.shape.reduce((product, size) => product * size, 1);
  if (count === 1) {
    const rows = leading.reduce((product, size) => product * size, 1);
    return { rows, columns, rowsPerMatrix: rows, scalesPerRow: 1 };
  }
  const ofRows = scale.shape.at(-1) === 1 ? scale.shape.slice(0, -1) : scale.shape;
  if (ofRows.length === leading.length && ofRows.every((size, i) => size === leading[i])) {
    return { rows: 1, columns, rowsPerMatrix, scalesPerRow: 1 };
  }
  if (block === undefined) throw partFault(scale, 'is neither one scale nor one for each row of its weight');
  const scalesPerRow = Math.ceil(columns / block.columns);
  const wanted = [...weight.shape.slice(0, -2), Math.ceil(rowsPerMatrix / block.rows), scalesPerRow];
  requireShape(scale, wanted, `a weight with a scale for ${block.rows} x ${block.columns} values`);
  return { ...block, rowsPerMatrix, scalesPerRow };
}

function groupType(weight: SafetensorsEntry, columns: number, block: ScaleBlock): F8Type {
  for (const type of ['F8_G128', 'F8_G32'] as const) {
    const size = tensorLayouts[type].blockSize;
    if (columns % size === 0 && (block.columns >= columns || block.columns % size === 0)) return type;
  }
  throw partFault(weight, `its rows of ${columns} values are not whole groups of 32 with one scale each`);
}

function scalesOfRows(
  scale: SafetensorsEntry,
  layout: ScaleLayout,
  columns: number,
  type: F8Type,
  first: number,
  count: number,
): Float32Array {
  const { rowsPerMatrix, scalesPerRow } = layout;
  const blockRows = Math.ceil(rowsPerMatrix / layout.rows);
  const blockRowOf = (row: number) =>
    Math.floor(row / rowsPerMatrix) * blockRows + Math.floor((row % rowsPerMatrix) / layout.rows);
  const firstBlockRow = blockRowOf(first);
  const stored = readFloatPart(
    scale,
    firstBlockRow * scalesPerRow,
    (blockRowOf(first + count - 1) + 1 - firstBlockRow) * scalesPerRow,
  );
  const groupSize = tensorLayouts[type].blockSize;
  const groups = columns / groupSize;
  const scales = new Float32Array(count * groups);
  for (let row = 0, to = 0; row < count; row++) {
    const from = (blockRowOf(first + row) - firstBlockRow) * scalesPerRow;
    for (let group = 0; group < groups; group++) {
      scales[to++] = stored[from + Math.floor((group * groupSize) / layout.columns)] as number;
    }
  }
  return scales;
}

/** MLX's mode mxfp8: four values in a word, a power of two for each 32. */
export function mxfp8Tensor(
  packed: SafetensorsEntry,
  powers: SafetensorsEntry,
  shape: readonly number[],
): DerivedTensor {
  const columns = shape.at(-1) ?? 0;
  return {
    name: packed.name,
    type: 'F8_G32',
    shape,
    parts: [packed, powers],
    fill(first, count, into) {
      const codes = readCodes(packed, columns, first, count);
      const bytes = readPart(powers, columns / 32, first, count);
      fillGroups('F8_G32', codes, Float32Array.from(bytes, powerOfTwo), into);
    },
  };
}

function powerOfTwo(byte: number): number {
  return byte === 255 ? Number.NaN : 2 ** (byte - 127);
}

function readCodes(weight: SafetensorsEntry, columns: number, first: number, count: number): Buffer {
  const codes = readPart(weight, columns, first, count);
  if (codes.includes(0x7f) || codes.includes(0xff))
    throw partFault(weight, 'holds a weight that is no number');
  return codes;
}

function fillGroups(type: F8Type, codes: Buffer, scales: Float32Array, into: Uint8Array): void {
  const codeWords = new Int32Array(codes.buffer, codes.byteOffset, codes.length / 4);
  const wordsPerGroup = tensorLayouts[type].blockSize / 4;
  const words = new Int32Array(scales.length * (1 + wordsPerGroup));
  const floats = new Float32Array(words.buffer);
  for (let group = 0, from = 0, to = 0; group < scales.length; group++) {
    floats[to++] = scales[group] as number;
    for (const end = to + wordsPerGroup; to < end; ) words[to++] = codeWords[from++] as number;
  }
  into.set(new Uint8Array(words.buffer));
}

const FIELD = 'quantization_config';

export const fp8Methods: readonly unknown[] = ['fp8', 'fbgemm_fp8', 'modelopt'];

/** The block size of scales, where there is one. Throws for anything but FP8. */
export function fp8Block(settings: JsonObject, configPath: string): ScaleBlock | undefined {
  switch (settings.quant_method) {
    case 'modelopt':
      if (settings.quant_algo === 'FP8') return undefined;
      throw fault(configPath, `${FIELD}.quant_algo`, `${shown(settings.quant_algo)} is not supported`);
    default:
      return readBlock(settings.weight_block_size, configPath, `${FIELD}.weight_block_size`);
  }
}

export function readBlock(value: unknown, configPath: string, field: string): ScaleBlock | undefined {
  if (value === undefined || value === null) return undefined;
  const isSize = (size: unknown) => Number.isSafeInteger(size) && (size as number) > 0;
  if (Array.isArray(value) && value.length === 2 && value.every(isSize)) {
    return { rows: value[0], columns: value[1] };
  }
  throw fault(configPath, field, `${shown(value)} is not a pair of sizes`);
}

function fault(file: string, field: string, problem: string): ModelFileError {
  const remedy = 'Use the model in FP8 as its makers publish it, the unquantized one, or a GGUF.';
  return new ModelFileError({ file, field, problem, remedy });
}
