// Models quantized by compressed-tensors (llm-compressor): the parts of a module are presented as one tensor `X.weight`.
//
//   pack-quantized   X.weight_packed      int32 [outputs, inputs * bits / 32]   codes as a row of bits, 2^(bits - 1) added
//                    X.weight_scale       float [outputs, groups]
//                    X.weight_zero_point  int32 [outputs * bits / 32, groups]   likewise along outputs; absent: symmetric
//                    X.weight_shape       int64 [2]
//                    X.weight_g_idx       int32 [inputs]                        with act-order by groups
//   int-quantized    X.weight             int8  [outputs, inputs]               with X.weight_scale, X.weight_zero_point int8
//   float-quantized  X.weight             F8_E4M3                               see fp8.ts
//   nvfp4, mxfp4     X.weight_packed      uint8 [outputs, inputs / 2]           see packed-floats.ts

import type { CompressedSettings, IntegerScheme } from './compressed-tensors-config.ts';
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
  wordMatrix,
} from './derived-weights.ts';
import { fp8Tensors } from './fp8.ts';
import { type CodeBits, codeAt, integerTensor } from './integer-matrix.ts';
import { packedFloats } from './packed-floats.ts';
import type { Safetensors, SafetensorsEntry } from './safetensors.ts';
import type { WeightSource } from './weight-source.ts';

interface Codes {
  readonly module: string;
  readonly part: SafetensorsEntry;
  readonly rows: number;
  readonly columns: number;
  readonly bits: CodeBits;
  readonly readWords: (first: number, count: number) => Int32Array;
  readonly others: readonly SafetensorsEntry[];
}

const PACKED = '.weight_packed';
const WEIGHT = '.weight';

export function compressedWeights(model: Safetensors, settings: CompressedSettings): WeightSource {
  const tensors = [...fp8Tensors(model, settings.block)];
  for (const part of model.entries.values()) {
    if (part.name.endsWith(PACKED)) {
      const module = part.name.slice(0, -PACKED.length);
      tensors.push(
        part.dtype === 'U8'
          ? packedFloats(model, module, part)
          : integers(model, packedCodes(model, module, part, settings), settings),
      );
    } else if (part.dtype === 'I8' && part.name.endsWith(WEIGHT)) {
      tensors.push(integers(model, byteCodes(part), settings));
    }
  }
  return derivedWeights(model, tensors);
}

function packedCodes(
  model: Safetensors,
  module: string,
  part: SafetensorsEntry,
  { integers: schemes }: CompressedSettings,
): Codes {
  requireDtype(part, 'I32');
  const shape = requirePart(model, `${module}.weight_shape`, part);
  const [rows, columns] = readShape(shape);
  const [packedRows, width = 0] = part.shape;
  const known = schemes.find(({ bits }) => width * 32 === columns * bits);
  if (part.shape.length !== 2 || packedRows !== rows || known === undefined || part.bytes === 0) {
    const bits = schemes.map((scheme) => scheme.bits).join(' or ') || 'no';
    const problem = `has the shape [${part.shape.slice(0, 8).join(', ')}], not one of ${rows} rows of ${columns} values of ${bits} bits`;
    throw partFault(part, problem);
  }
  return {
    module,
    part,
    rows,
    columns,
    bits: known.bits,
    readWords: (first, count) => wordsOf(readPart(part, 4 * width, first, count)),
    others: [shape],
  };
}

function readShape(part: SafetensorsEntry): readonly [rows: number, columns: number] {
  requireShape(part, [2], 'a matrix');
  if (part.dtype === 'I32') {
    const [rows = 0, columns = 0] = wordsOf(readPart(part, 4, 0, 2));
    return [rows, columns];
  }
  requireDtype(part, 'I64');
  const bytes = readPart(part, 8, 0, 2);
  return [Number(bytes.readBigInt64LE(0)), Number(bytes.readBigInt64LE(8))];
}

function byteCodes(part: SafetensorsEntry): Codes {
  const [rows = 0, columns = 0] = part.shape;
  if (part.shape.length !== 2 || part.bytes === 0 || columns % 4 !== 0) {
    throw partFault(
      part,
      `has the shape [${part.shape.slice(0, 8).join(', ')}], not one of rows of whole words`,
    );
  }
  return {
    module: part.name.slice(0, -WEIGHT.length),
    part,
    rows,
    columns,
    bits: 8,
    // From -128 … 127 to 0 … 255.
    readWords: (first, count) =>
      wordsOf(readPart(part, columns, first, count)).map((word) => word ^ 0x80808080),
    others: [],
  };
}

function integers(
  model: Safetensors,
  codes: Codes,
  { integers: schemes }: CompressedSettings,
): DerivedTensor {
  const { module, part, rows, columns, bits, readWords, others } = codes;
  const scales = requirePart(model, `${module}.weight_scale`, part);
  requireFloats(scales);
  const single = scales.bytes > 0 && scales.shape.every((size) => size === 1) && rows > 1;
  const groups = single ? 1 : (scales.shape[1] ?? 1);
  if (!single) requireShape(scales, [rows, groups], 'a weight with scales for rows or groups of them');
  const zeros = model.entries.get(`${module}.weight_zero_point`);
  const own = schemes.filter((scheme) => scheme.bits === bits);
  if (zeros === undefined && own.length > 0 && own.every(({ symmetric }) => !symmetric)) {
    requirePart(model, `${module}.weight_zero_point`, part);
  }
  const readZeros = zeroReader(zeros, codes, groups);
  const indexes = model.entries.get(`${module}.weight_g_idx`);
  const grouping =
    (indexes === undefined ? undefined : readIndexes(indexes, columns, groups)) ??
    groupSizeOf(scales, columns, groups, own);
  const scalesOf = (first: number, count: number) =>
    single
      ? new Float32Array(count).fill(readFloatPart(scales, 0, 1)[0] as number)
      : readFloatPart(scales, first * groups, count * groups);
  return integerTensor({
    name: `${module}.weight`,
    rows,
    columns,
    bits,
    groups,
    grouping,
    scales,
    symmetric: zeros === undefined,
    parts: [
      part,
      scales,
      ...others,
      ...(zeros === undefined ? [] : [zeros]),
      ...(indexes === undefined ? [] : [indexes]),
    ],
    read: (first, count) => ({
      words: readWords(first, count),
      scales: scalesOf(first, count),
      zeros: readZeros(first, count),
    }),
  });
}

function groupSizeOf(
  scales: SafetensorsEntry,
  columns: number,
  groups: number,
  schemes: readonly IntegerScheme[],
): number {
  if (groups === 1) return columns;
  const known = schemes.find(
    ({ groupSize }) => groupSize !== undefined && Math.ceil(columns / groupSize) === groups,
  );
  if (known?.groupSize !== undefined) return known.groupSize;
  throw partFault(
    scales,
    `has ${groups} scales for rows of ${columns} values, which no group of settings asks for`,
  );
}

/** Undefined where the part was never filled, as older versions save it. */
function readIndexes(part: SafetensorsEntry, columns: number, groups: number): Int32Array | undefined {
  requireDtype(part, 'I32');
  requireShape(part, [columns], 'a weight of so many inputs');
  const indexes = wordsOf(readPart(part, 4, 0, columns));
  if (indexes.every((group) => group === -1)) return undefined;
  const stray = indexes.find((group) => group < 0 || group >= groups);
  if (stray !== undefined) throw partFault(part, `names group ${stray} of ${groups}`);
  return indexes;
}

/** Zeros of rows by group, in units of codes. */
function zeroReader(
  part: SafetensorsEntry | undefined,
  { rows, bits }: Codes,
  groups: number,
): (first: number, count: number) => Int32Array {
  const middle = 2 ** (bits - 1);
  if (part === undefined) return (_, count) => new Int32Array(count * groups).fill(middle);
  if (part.dtype === 'I8') {
    requireShape(part, [rows, groups], 'a weight with a zero for each scale');
    return (first, count) =>
      Int32Array.from(new Int8Array(readPart(part, groups, first, count)), (zero) => zero + middle);
  }
  requireDtype(part, 'I32');
  requireShape(part, [Math.ceil((rows * bits) / 32), groups], 'a weight with a packed zero for each scale');
  const matrix = wordMatrix(part);
  const words = Math.ceil((rows * bits) / 32);
  return (first, count) => {
    const columns = matrix.columns(0, groups);
    const zeros = new Int32Array(count * groups);
    for (let group = 0; group < groups; group++) {
      const own = columns.subarray(group * words, (group + 1) * words);
      for (let row = 0; row < count; row++)
        zeros[row * groups + group] = codeAt(own, (first + row) * bits, bits);
    }
    return zeros;
  };
}

function wordsOf({ buffer, byteOffset, length }: Buffer): Int32Array {
  return new Int32Array(buffer, byteOffset, length / 4);
}
