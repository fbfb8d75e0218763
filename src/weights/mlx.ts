// Models quantized by MLX: a module's packed integers, scales and biases are three tensors of a safetensors
// model. They are presented as one tensor `X.weight` whose groups hold all three:
//
//   X.weight uint32 [rows, columns * bits / 32]  ┐
//   X.scales float  [rows, columns / group]      ├─> per group { float32 scale, float32 bias, packed bytes }
//   X.biases float  [rows, columns / group]      ┘

import type { JsonObject } from './json-file.ts';
import { type MlxGrouping, mlxGrouping } from './mlx-config.ts';
import { ModelFileError, printable } from './model-file-error.ts';
import { dequantize } from './quants/dequantize.ts';
import { floatType, floatWeights, type Safetensors, type SafetensorsEntry } from './safetensors.ts';
import { checkDestination, checkRows } from './stored-weights.ts';
import { rowBytes, type TensorType, tensorLayouts } from './tensor-type.ts';
import { columnsOf, type TensorInfo, type WeightSource } from './weight-source.ts';

interface QuantizedTensor extends TensorInfo {
  readonly packed: SafetensorsEntry;
  readonly scales: SafetensorsEntry;
  readonly biases: SafetensorsEntry;
}

// Rows pass through a small buffer, so that loading needs no second copy of a tensor.
const PIECE_BYTES = 2 ** 20;

/** `config` is the model's config.json, at `configPath`. */
export function mlxWeights(model: Safetensors, config: JsonObject, configPath: string): WeightSource {
  const plain = floatWeights(model);
  const tensors = new Map<string, TensorInfo>(plain.tensors);
  const quantized = new Map<string, QuantizedTensor>();
  for (const [name, scales] of model.entries) {
    if (!name.endsWith('.scales')) continue;
    const module = name.slice(0, -'.scales'.length);
    const tensor = quantizedTensor(model, module, scales, mlxGrouping(config, configPath, module));
    for (const part of ['scales', 'biases']) tensors.delete(`${module}.${part}`);
    tensors.set(tensor.name, tensor);
    quantized.set(tensor.name, tensor);
  }
  return {
    tensors,
    readRows(name, first, count, into) {
      const tensor = quantized.get(name);
      if (tensor === undefined) plain.readRows(name, first, count, into);
      else readGroups(tensor, first, count, into);
    },
    close: plain.close,
  };
}

function quantizedTensor(
  model: Safetensors,
  module: string,
  scales: SafetensorsEntry,
  { bits, groupSize, type }: MlxGrouping,
): QuantizedTensor {
  const packed = requirePart(model, `${module}.weight`);
  const biases = requirePart(model, `${module}.biases`);
  if (packed.dtype !== 'U32')
    throw partFault(packed, `has the dtype ${printable(packed.dtype)} where U32 is expected`);
  for (const part of [scales, biases]) {
    if (floatType(part.dtype) === undefined)
      throw partFault(part, `has the dtype ${printable(part.dtype)}, not a float`);
  }
  const leading = packed.shape.slice(0, -1);
  const columns = ((packed.shape.at(-1) ?? 0) * 32) / bits;
  const expected = [...leading, columns / groupSize];
  if (leading.length === 0 || packed.bytes === 0) throw partFault(packed, 'has no rows of packed values');
  for (const part of [scales, biases]) {
    if (part.shape.length === expected.length && part.shape.every((size, i) => size === expected[i]))
      continue;
    const wanted = `[${expected.join(', ')}] for ${bits} bits in groups of ${groupSize}`;
    throw partFault(part, `has the shape [${part.shape.join(', ')}] where the weight needs ${wanted}`);
  }
  return { name: packed.name, type, shape: [...leading, columns], packed, scales, biases };
}

function requirePart(model: Safetensors, name: string): SafetensorsEntry {
  const entry = model.entries.get(name);
  if (entry !== undefined) return entry;
  throw new ModelFileError({
    file: model.path,
    field: name,
    problem: 'is missing beside the scales of its module',
    remedy: 'The model is incomplete, or not quantized in MLX’s affine mode: use an affine 4 or 8 bit model.',
  });
}

function partFault(part: SafetensorsEntry, problem: string): ModelFileError {
  const remedy = 'Weights and config.json do not fit each other: download the whole model again.';
  return new ModelFileError({ file: part.file.path, field: part.name, problem, remedy });
}

function readGroups(tensor: QuantizedTensor, first: number, count: number, into: Uint8Array): void {
  const bytesPerRow = rowBytes(tensor.type, columnsOf(tensor));
  checkRows(tensor, tensor.packed.file.path, first, count);
  checkDestination(tensor, count * bytesPerRow, into);
  const rowsPerPiece = Math.max(1, Math.floor(PIECE_BYTES / bytesPerRow));
  for (let done = 0; done < count; done += rowsPerPiece) {
    const rows = Math.min(rowsPerPiece, count - done);
    into.set(interleaveRows(tensor, first + done, rows), done * bytesPerRow);
  }
}

function interleaveRows(tensor: QuantizedTensor, first: number, rows: number): Uint8Array {
  const { blockSize, blockBytes } = tensorLayouts[tensor.type];
  const groupsPerRow = columnsOf(tensor) / blockSize;
  const packedBytesPerRow = groupsPerRow * (blockBytes - 8);
  const packed = new Int32Array((rows * packedBytesPerRow) / 4);
  tensor.packed.file.readInto(
    tensor.packed.offset + first * packedBytesPerRow,
    new Uint8Array(packed.buffer),
    tensor.name,
  );
  const scales = readFloatPart(tensor.scales, first * groupsPerRow, rows * groupsPerRow);
  const biases = readFloatPart(tensor.biases, first * groupsPerRow, rows * groupsPerRow);

  const groupWords = blockBytes / 4;
  const words = new Int32Array(rows * groupsPerRow * groupWords);
  const floats = new Float32Array(words.buffer);
  const packedWords = groupWords - 2;
  for (let group = 0; group < scales.length; group++) {
    const at = group * groupWords;
    floats[at] = scales[group] as number;
    floats[at + 1] = biases[group] as number;
    for (let i = 0; i < packedWords; i++) words[at + 2 + i] = packed[group * packedWords + i] as number;
  }
  return new Uint8Array(words.buffer);
}

function readFloatPart(part: SafetensorsEntry, first: number, count: number): Float32Array {
  const type = floatType(part.dtype) as TensorType;
  const bytesPerValue = rowBytes(type, 1);
  const bytes = part.file.readAt(part.offset + first * bytesPerValue, count * bytesPerValue, part.name);
  const values = new Float32Array(count);
  dequantize(type, bytes, values);
  return values;
}
