// The tensor table of a GGUF header: types, shapes and places, all checked against the file.

import type { FileReader } from './file-reader.ts';
import type { GgufCursor } from './gguf-cursor.ts';
import type { GgufValue } from './gguf-metadata.ts';
import { refuseOverlap, type StoredTensor } from './stored-weights.ts';
import { rowBytes, type TensorType, tensorLayouts } from './tensor-type.ts';

// An entry has a name, a count of dimensions, one dimension, a type and an offset.
export const TENSOR_MIN_BYTES = 32;
const MAX_DIMENSIONS = 4;
const DEFAULT_ALIGNMENT = 32;
const MAX_ALIGNMENT = 2 ** 20;

export const supportedTypes: ReadonlyMap<number, TensorType> = new Map([
  [0, 'F32'],
  [1, 'F16'],
  [2, 'Q4_0'],
  [3, 'Q4_1'],
  [6, 'Q5_0'],
  [7, 'Q5_1'],
  [8, 'Q8_0'],
  [10, 'Q2_K'],
  [11, 'Q3_K'],
  [12, 'Q4_K'],
  [13, 'Q5_K'],
  [14, 'Q6_K'],
  [16, 'IQ2_XXS'],
  [17, 'IQ2_XS'],
  [18, 'IQ3_XXS'],
  [19, 'IQ1_S'],
  [20, 'IQ4_NL'],
  [21, 'IQ3_S'],
  [22, 'IQ2_S'],
  [23, 'IQ4_XS'],
  [29, 'IQ1_M'],
  [30, 'BF16'],
  [34, 'TQ1_0'],
  [35, 'TQ2_0'],
  [39, 'MXFP4'],
]);

const unsupportedNames: ReadonlyMap<number, string> = new Map([
  [4, 'Q4_2'],
  [5, 'Q4_3'],
  [9, 'Q8_1'],
  [15, 'Q8_K'],
  [24, 'I8'],
  [25, 'I16'],
  [26, 'I32'],
  [27, 'I64'],
  [28, 'F64'],
  [40, 'NVFP4'],
  [41, 'Q1_0'],
]);

interface TensorEntry {
  readonly name: string;
  readonly type: TensorType;
  readonly shape: readonly number[];
  readonly bytes: number;
  /** From the start of the data section. */
  readonly offset: number;
}

export function readTensors(
  cursor: GgufCursor,
  file: FileReader,
  count: number,
  metadata: ReadonlyMap<string, GgufValue>,
): Map<string, StoredTensor> {
  const alignment = readAlignment(cursor, metadata);
  const entries: TensorEntry[] = [];
  for (let index = 0; index < count; index++) entries.push(readEntry(cursor, index, alignment));

  const dataStart = Math.ceil(cursor.position / alignment) * alignment;
  const tensors = new Map<string, StoredTensor>();
  for (const { name, type, shape, bytes, offset } of entries) {
    if (tensors.has(name)) throw cursor.fault(name, 'two tensors have this name');
    if (dataStart + offset + bytes > file.size) {
      const problem = `needs ${bytes} bytes at offset ${dataStart + offset}, but the file has ${file.size} bytes`;
      throw cursor.fault(name, problem);
    }
    tensors.set(name, { name, type, shape, file, offset: dataStart + offset });
  }
  refuseOverlap(
    file.path,
    entries.map(({ name, offset, bytes }) => ({ name, start: offset, end: offset + bytes })),
  );
  return tensors;
}

function readAlignment(cursor: GgufCursor, metadata: ReadonlyMap<string, GgufValue>): number {
  const alignment = metadata.get('general.alignment') ?? DEFAULT_ALIGNMENT;
  const valid = typeof alignment === 'number' && alignment >= 1 && alignment <= MAX_ALIGNMENT;
  if (valid && Number.isInteger(Math.log2(alignment))) return alignment;
  throw cursor.fault('general.alignment', `must be a power of two up to ${MAX_ALIGNMENT}`);
}

function readEntry(cursor: GgufCursor, index: number, alignment: number): TensorEntry {
  const name = cursor.string(`name of tensor ${index}`);
  const shape = readShape(cursor, name);
  const type = readType(cursor, name);
  const offset = cursor.size(name);
  if (offset % alignment !== 0) {
    throw cursor.fault(name, `its offset ${offset} is not a multiple of the alignment ${alignment}`);
  }
  const columns = shape[shape.length - 1] ?? 1;
  const { blockSize } = tensorLayouts[type];
  if (columns % blockSize !== 0) {
    throw cursor.fault(name, `its rows of ${columns} values are not whole ${type} blocks of ${blockSize}`);
  }
  const rows = shape.slice(0, -1).reduce((product, size) => product * size, 1);
  return { name, type, shape, bytes: rows * rowBytes(type, columns), offset };
}

/** The file stores the contiguous dimension first. */
function readShape(cursor: GgufCursor, name: string): readonly number[] {
  const dimensions = cursor.uint32(name);
  if (dimensions < 1 || dimensions > MAX_DIMENSIONS) {
    throw cursor.fault(name, `has ${dimensions} dimensions where 1 to ${MAX_DIMENSIONS} are possible`);
  }
  const shape: number[] = [];
  for (let dimension = 0; dimension < dimensions; dimension++) shape.unshift(cursor.size(name));
  const values = shape.reduce((product, size) => product * size, 1);
  if (values >= 1 && Number.isSafeInteger(values)) return shape;
  throw cursor.fault(name, `has the impossible shape [${shape.join(', ')}]`);
}

function readType(cursor: GgufCursor, name: string): TensorType {
  const id = cursor.uint32(name);
  const type = supportedTypes.get(id);
  if (type !== undefined) return type;
  const unsupported = unsupportedNames.get(id);
  const problem =
    unsupported === undefined
      ? `has the unknown tensor type number ${id}`
      : `has the type ${unsupported}, which is not supported`;
  const supported = [...supportedTypes.values()].join(', ');
  throw cursor.fault(name, problem, `Use a file whose tensors are among ${supported}.`);
}
