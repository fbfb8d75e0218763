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
  derivedBySuffix,
  partFault,
  readFloatPart,
  readPart,
  requireDtype,
  requireFloats,
  requirePart,
  requireShape,
} from './derived-weights.ts';
import { mxfp8Tensor } from './fp8.ts';
import { isJsonObject, type JsonObject } from './json-file.ts';
import { ModelFileError, printable } from './model-file-error.ts';
import { fourBitTensor } from './mxfp4.ts';
import { floatType, type Safetensors, type SafetensorsEntry } from './safetensors.ts';
import { type MlxLayout, mlxType, type TensorType } from './tensor-type.ts';
import type { WeightSource } from './weight-source.ts';

interface Parts {
  readonly packed: SafetensorsEntry;
  readonly scales: SafetensorsEntry;
  readonly biases: SafetensorsEntry;
}

const SCALES = '.scales';

export function mlxWeights(model: Safetensors, config: JsonObject, configPath: string): WeightSource {
  return derivedBySuffix(model, SCALES, (entry, module) =>
    quantizedTensor(model, module, entry, mlxGrouping(config, configPath, module)),
  );
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

/** The common type of scales and biases, or float32. */
function scaleType(scales: SafetensorsEntry, biases: SafetensorsEntry): MlxLayout['scale'] {
  return scales.dtype === biases.dtype ? (floatType(scales.dtype) ?? 'F32') : 'F32';
}

/** Groups are counted over all rows. */
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

interface Mode {
  readonly bits: readonly unknown[];
  readonly groupSizes: readonly unknown[];
  /** Set where bits and groups do not decide it. */
  readonly type?: TensorType;
}

const modes: ReadonlyMap<unknown, Mode> = new Map<unknown, Mode>([
  ['affine', { bits: [2, 3, 4, 5, 6, 8], groupSizes: [32, 64, 128] }],
  ['mxfp4', { bits: [4], groupSizes: [32], type: 'MXFP4' }],
  ['nvfp4', { bits: [4], groupSizes: [16], type: 'NVFP4' }],
  ['mxfp8', { bits: [8], groupSizes: [32], type: 'F8_G32' }],
]);

/** Packed integers with scales and biases, or FP4 or FP8 with scales. */
interface MlxGrouping {
  readonly bits: number;
  readonly groupSize: number;
  readonly type: TensorType;
}

/** MLX names no method; other quantizers do. */
export function isMlxConfig(config: JsonObject): boolean {
  return mlxSettings(config) !== undefined;
}

/** Of one module, e.g. `model.layers.0.self_attn.q_proj`. */
function mlxGrouping(config: JsonObject, configPath: string, module: string): MlxGrouping {
  const settings = mlxSettings(config) ?? {};
  const override = Object.hasOwn(settings, module) ? settings[module] : undefined;
  if (override === false) {
    throw fault(configPath, `quantization.${module}`, 'is false, but the module has scales');
  }
  const field = isJsonObject(override) ? `quantization.${module}` : 'quantization';
  const own = isJsonObject(override) ? override : settings;
  // A module's settings replace the general ones, also the mode.
  const { bits, group_size: groupSize } = { ...settings, ...own };
  const { mode = 'affine' } = own;
  const known = modes.get(mode);
  if (known === undefined) throw fault(configPath, `${field}.mode`, `${shown(mode)} is not supported`);
  if (!known.bits.includes(bits)) throw fault(configPath, `${field}.bits`, `${shown(bits)} is not supported`);
  if (!known.groupSizes.includes(groupSize)) {
    throw fault(configPath, `${field}.group_size`, `${shown(groupSize)} is not supported`);
  }
  const type = known.type ?? `MLX${bits}_G${groupSize}`;
  return { bits, groupSize, type } as MlxGrouping;
}

function mlxSettings(config: JsonObject): JsonObject | undefined {
  for (const settings of [config.quantization, config.quantization_config]) {
    if (isJsonObject(settings) && settings.quant_method === undefined && settings.bits !== undefined) {
      return settings;
    }
  }
  return undefined;
}

function shown(value: unknown): string {
  return value === undefined ? 'no value' : printable(JSON.stringify(value));
}

function fault(file: string, field: string, problem: string): ModelFileError {
  return new ModelFileError({
    file,
    field,
    problem,
    remedy:
      'Use a model quantized by MLX with 2 to 6 or 8 bits in groups of 32, 64 or 128, or in its modes mxfp4, nvfp4 and mxfp8.',
  });
}
