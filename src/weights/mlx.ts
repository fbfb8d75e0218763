// Models quantized by MLX: a module's packed integers, scales and biases are three tensors of a safetensors
// model. They are presented as one tensor `X.weight` whose groups hold all three:
//
//   X.weight uint32 [rows, columns * bits / 32]  ┐
//   X.scales float  [rows, columns / group]      ├─> per group { scale, bias, packed bytes }
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
import { floatType, type Safetensors, type SafetensorsEntry } from './safetensors.ts';
import { type MlxLayout, mlxType } from './tensor-type.ts';
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
  const layout = { bits, groupSize, scale: scaleType(scales, biases) } as MlxLayout;
  return {
    name: packed.name,
    type: mlxType(layout),
    shape: [...leading, columns],
    parts: [packed, scales, biases],
    fill: (first, count, into) => fillGroups(parts, layout, first * groupsPerRow, count * groupsPerRow, into),
  };
}

/** What both scales and biases are, or float32, which holds either. */
function scaleType(scales: SafetensorsEntry, biases: SafetensorsEntry): MlxLayout['scale'] {
  return scales.dtype === biases.dtype ? (floatType(scales.dtype) ?? 'F32') : 'F32';
}

/** Groups `first … first + count - 1`, counted over all rows. */
function fillGroups(
  parts: Parts,
  { bits, groupSize, scale }: MlxLayout,
  first: number,
  count: number,
  into: Uint8Array,
): void {
  const heads = readHeads(parts, scale, first, count);
  const headWords = heads.length / count;
  const packedWords = (groupSize * bits) / 32;
  const codes = readPart(parts.packed, 4 * packedWords, first, count);
  const codeWords = new Int32Array(codes.buffer, codes.byteOffset, count * packedWords);

  const words = new Int32Array(heads.length + codeWords.length);
  let at = 0;
  for (let group = 0; group < count; group++) {
    for (let i = 0; i < headWords; i++) words[at++] = heads[group * headWords + i] as number;
    for (let i = 0; i < packedWords; i++) words[at++] = codeWords[group * packedWords + i] as number;
  }
  into.set(new Uint8Array(words.buffer));
}

/** Scales and biases in turn. */
function readHeads(
  { scales, biases }: Parts,
  type: MlxLayout['scale'],
  first: number,
  count: number,
): Int32Array {
  const read = type === 'F32' ? readFloatPart : readShortPart;
  const [scale, bias] = [read(scales, first, count), read(biases, first, count)];
  const heads = type === 'F32' ? new Float32Array(2 * count) : new Uint16Array(2 * count);
  for (let group = 0; group < count; group++) {
    heads[2 * group] = scale[group] as number;
    heads[2 * group + 1] = bias[group] as number;
  }
  return new Int32Array(heads.buffer);
}

function readShortPart(part: SafetensorsEntry, first: number, count: number): Uint16Array {
  const bytes = readPart(part, 2, first, count);
  return new Uint16Array(bytes.buffer, bytes.byteOffset, count);
}
