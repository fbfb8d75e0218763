// Models quantized by MLX: a module's packed integers, scales and biases are three tensors of a safetensors
// model. They are presented as one tensor `X.weight` whose groups hold all three:
//
//   X.weight uint32 [rows, columns * bits / 32]  ┐
//   X.scales float  [rows, columns / group]      ├─> per group { float32 scale, float32 bias, packed bytes }
//   X.biases float  [rows, columns / group]      ┘
//
// Modes of floats have no biases, and scales of one byte: powers of two in mxfp4 (see mxfp4.ts) and mxfp8 (see fp8.ts), floats
// of eight bits in nvfp4.

import {
  type DerivedTensor,
  derivedWeights,
  partFault,
  readFloatPart,
  readPart,
  requireDtype,
  requireFloats,
  requirePart,
  requireShape,
} from './derived-weights.ts';
import { mxfp8Tensor } from './fp8.ts';
import type { JsonObject } from './json-file.ts';
import { type MlxGrouping, mlxGrouping } from './mlx-config.ts';
import { fourBitTensor } from './mxfp4.ts';
import type { Safetensors, SafetensorsEntry } from './safetensors.ts';
import { type TensorType, tensorLayouts } from './tensor-type.ts';
import type { WeightSource } from './weight-source.ts';

interface Parts {
  readonly packed: SafetensorsEntry;
  readonly scales: SafetensorsEntry;
  readonly biases: SafetensorsEntry;
}

const SCALES = '.scales';

/** `config` is the model's config.json, at `configPath`. */
export function mlxWeights(model: Safetensors, config: JsonObject, configPath: string): WeightSource {
  const scales = [...model.entries.values()].filter(({ name }) => name.endsWith(SCALES));
  const tensors = scales.map((entry) => {
    const module = entry.name.slice(0, -SCALES.length);
    return quantizedTensor(model, module, entry, mlxGrouping(config, configPath, module));
  });
  return derivedWeights(model, tensors);
}

function quantizedTensor(
  model: Safetensors,
  module: string,
  scales: SafetensorsEntry,
  { bits, groupSize, type }: MlxGrouping,
): DerivedTensor {
  const packed = requirePart(model, `${module}.weight`, scales);
  requireDtype(packed, 'U32');
  const leading = packed.shape.slice(0, -1);
  const columns = ((packed.shape.at(-1) ?? 0) * 32) / bits;
  if (leading.length === 0 || packed.bytes === 0) throw partFault(packed, 'has no rows of packed values');
  const groupsPerRow = columns / groupSize;
  const needs = `a weight of ${bits} bits in groups of ${groupSize}`;
  requireShape(scales, [...leading, groupsPerRow], needs);
  if (type === 'MXFP4' || type === 'NVFP4' || type === 'F8_G32') {
    requireDtype(scales, 'U8');
    if (columns % 32 !== 0)
      throw partFault(packed, `its rows of ${columns} values are not whole blocks of 32`);
    const shape = [...leading, columns];
    if (type === 'F8_G32') return mxfp8Tensor(packed, scales, shape);
    return fourBitTensor(type, { name: packed.name, pairs: packed, scales }, shape);
  }
  const biases = requirePart(model, `${module}.biases`, scales);
  requireShape(biases, [...leading, groupsPerRow], needs);
  for (const part of [scales, biases]) requireFloats(part);
  const parts = { packed, scales, biases };
  return {
    name: packed.name,
    type,
    shape: [...leading, columns],
    parts: [packed, scales, biases],
    fill: (first, count, into) => fillGroups(parts, type, first * groupsPerRow, count * groupsPerRow, into),
  };
}

/** Groups `first … first + count - 1`, counted over all rows. */
function fillGroups(
  { packed, scales, biases }: Parts,
  type: TensorType,
  first: number,
  count: number,
  into: Uint8Array,
): void {
  const groupWords = tensorLayouts[type].blockBytes / 4;
  const packedWords = groupWords - 2;
  const codes = readPart(packed, 4 * packedWords, first, count);
  const codeWords = new Int32Array(codes.buffer, codes.byteOffset, count * packedWords);
  const [scale, bias] = [readFloatPart(scales, first, count), readFloatPart(biases, first, count)];

  const words = new Int32Array(count * groupWords);
  const floats = new Float32Array(words.buffer);
  for (let group = 0; group < count; group++) {
    const at = group * groupWords;
    floats[at] = scale[group] as number;
    floats[at + 1] = bias[group] as number;
    for (let i = 0; i < packedWords; i++) words[at + 2 + i] = codeWords[group * packedWords + i] as number;
  }
  into.set(new Uint8Array(words.buffer));
}
