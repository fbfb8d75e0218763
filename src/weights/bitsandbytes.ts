// Models quantized to four bits by bitsandbytes (NF4, FP4), as transformers saves them: the parts of a module are presented as one
// tensor `X.weight`. Blocks of values run on over the ends of rows.
//
//   X.weight                                  bytes of two codes each, the first in the upper half
//   X.weight.quant_map                        F32 [16]       what a code stands for
//   X.weight.absmax                           F32 [blocks]   what that is multiplied by; or, quantized once more:
//   X.weight.absmax                           U8  [blocks]     nested_quant_map[absmax] * nested_absmax + nested_offset
//   X.weight.nested_quant_map, nested_absmax  F32 [256], [blocks / nested_blocksize]
//   X.weight.quant_state.bitsandbytes__nf4    JSON: sizes, shape and dtype
//
// No type has such a codebook. Weights become floats of the dtype that bitsandbytes dequantizes to, rounded as it rounds them.

import {
  type DerivedTensor,
  derivedWeights,
  partFault,
  readFloatPart,
  readPart,
  requireDtype,
  requirePart,
  requireShape,
} from './derived-weights.ts';
import { type JsonObject, parseJsonObject } from './json-file.ts';
import { printable } from './model-file-error.ts';
import { requireSetting } from './quantization-settings.ts';
import { encodeFloats } from './quants/floats.ts';
import type { Safetensors, SafetensorsEntry } from './safetensors.ts';
import type { WeightSource } from './weight-source.ts';

type FloatType = 'F32' | 'F16' | 'BF16';

interface State {
  readonly rows: number;
  readonly columns: number;
  readonly blockSize: number;
  readonly type: FloatType;
  readonly nested?: { readonly blockSize: number; readonly offset: number };
}

/** Scales of blocks `first … first + count - 1`. */
type ReadFactors = (first: number, count: number) => Float32Array;

const STATE = /\.quant_state\.bitsandbytes__(nf4|fp4)$/;
const floatTypes: ReadonlyMap<unknown, FloatType> = new Map([
  ['bfloat16', 'BF16'],
  ['float16', 'F16'],
  ['float32', 'F32'],
]);
const MAX_STATE_BYTES = 4096;

export function checkBitsAndBytes(settings: JsonObject, configPath: string): void {
  requireSetting(settings, 'load_in_8bit', [undefined, null, false], configPath);
  requireSetting(settings, 'load_in_4bit', [true], configPath);
}

export function bitsAndBytesWeights(model: Safetensors): WeightSource {
  const tensors = [...model.entries.values()]
    .filter(({ name }) => STATE.test(name))
    .map((state) => quantizedTensor(model, state));
  return derivedWeights(model, tensors);
}

function quantizedTensor(model: Safetensors, statePart: SafetensorsEntry): DerivedTensor {
  const name = statePart.name.replace(STATE, '');
  const state = readState(statePart);
  const { rows, columns, type, blockSize } = state;
  const codes = requirePart(model, name, statePart);
  if (2 * codes.bytes !== rows * columns || codes.bytes === 0) {
    throw partFault(
      codes,
      `has ${codes.bytes} bytes where ${rows} x ${columns} values of four bits are expected`,
    );
  }
  const map = requirePart(model, `${name}.quant_map`, statePart);
  requireDtype(map, 'F32');
  requireShape(map, [16], 'a code of four bits');
  const { read, parts } = factors(model, name, statePart, state);
  return {
    name,
    type,
    shape: [rows, columns],
    parts: [statePart, codes, map, ...parts],
    fill(first, count, into) {
      const start = first * columns;
      const end = (first + count) * columns;
      const firstBlock = Math.floor(start / blockSize);
      const multiplied = read(firstBlock, Math.ceil(end / blockSize) - firstBlock);
      const meanings = encodeFloats(type, codeMeanings(readFloatPart(map, 0, 16), multiplied));
      if (meanings === undefined) throw partFault(codes, `stands for weights too large for ${type}`);
      const bytes = readPart(codes, 1, start / 2, (end - start) / 2);
      const values = type === 'F32' ? new Float32Array(end - start) : new Uint16Array(end - start);
      const skipped = start - firstBlock * blockSize;
      for (let i = 0; i < values.length; i++) {
        const pair = bytes[i >> 1] as number;
        const code = (i & 1) === 0 ? pair >> 4 : pair & 15;
        values[i] = meanings[16 * Math.floor((skipped + i) / blockSize) + code] as number;
      }
      into.set(new Uint8Array(values.buffer));
    },
  };
}

function codeMeanings(map: Float32Array, multiplied: Float32Array): Float32Array {
  const meanings = new Float32Array(16 * multiplied.length);
  for (let at = 0; at < meanings.length; at++) {
    meanings[at] = (map[at & 15] as number) * (multiplied[at >> 4] as number);
  }
  return meanings;
}

function factors(
  model: Safetensors,
  name: string,
  statePart: SafetensorsEntry,
  { rows, columns, blockSize, nested }: State,
): { readonly read: ReadFactors; readonly parts: readonly SafetensorsEntry[] } {
  const blocks = Math.ceil((rows * columns) / blockSize);
  const absmax = requirePart(model, `${name}.absmax`, statePart);
  requireShape(absmax, [blocks], `a weight in blocks of ${blockSize}`);
  if (nested === undefined) {
    requireDtype(absmax, 'F32');
    return { read: (first, count) => readFloatPart(absmax, first, count), parts: [absmax] };
  }
  requireDtype(absmax, 'U8');
  const map = requirePart(model, `${name}.nested_quant_map`, statePart);
  const outer = requirePart(model, `${name}.nested_absmax`, statePart);
  for (const part of [map, outer]) requireDtype(part, 'F32');
  requireShape(map, [256], 'a code of eight bits');
  requireShape(outer, [Math.ceil(blocks / nested.blockSize)], `blocks of ${nested.blockSize}`);
  const read: ReadFactors = (first, count) => {
    const firstOuter = Math.floor(first / nested.blockSize);
    const outers = readFloatPart(
      outer,
      firstOuter,
      Math.ceil((first + count) / nested.blockSize) - firstOuter,
    );
    const meanings = readFloatPart(map, 0, 256);
    const codes = readPart(absmax, 1, first, count);
    return Float32Array.from(codes, (code, index) => {
      const factor = outers[Math.floor((first + index) / nested.blockSize) - firstOuter] as number;
      return Math.fround((meanings[code] as number) * factor) + nested.offset;
    });
  };
  return { read, parts: [absmax, map, outer] };
}

function readState(part: SafetensorsEntry): State {
  requireDtype(part, 'U8');
  if (part.bytes > MAX_STATE_BYTES)
    throw partFault(part, `has ${part.bytes} bytes, too many for its settings`);
  const state = parseJsonObject(readPart(part, 1, 0, part.bytes), part.file.path, part.name);
  const { shape, blocksize: blockSize, dtype, nested_blocksize: nestedSize, nested_offset: offset } = state;
  const [rows, columns, ...more] = Array.isArray(shape) ? (shape as readonly unknown[]) : [];
  const type = floatTypes.get(dtype);
  if (!isSize(rows) || !isSize(columns) || more.length > 0 || columns % 2 !== 0) {
    throw unknown(part, 'shape', shape);
  }
  if (!isSize(blockSize)) throw unknown(part, 'blocksize', blockSize);
  if (type === undefined) throw unknown(part, 'dtype', dtype);
  if (nestedSize === undefined) return { rows, columns, blockSize, type };
  if (!isSize(nestedSize)) throw unknown(part, 'nested_blocksize', nestedSize);
  if (typeof offset !== 'number') throw unknown(part, 'nested_offset', offset);
  return { rows, columns, blockSize, type, nested: { blockSize: nestedSize, offset: Math.fround(offset) } };
}

function isSize(value: unknown): value is number {
  return Number.isSafeInteger(value) && (value as number) > 0;
}

function unknown(part: SafetensorsEntry, field: string, value: unknown) {
  return partFault(
    part,
    `has the ${field} ${printable(JSON.stringify(value) ?? 'undefined')}, which is not known`,
  );
}
