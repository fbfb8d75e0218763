// Reads the tensors a ModelSpec names in the order backends know: slices resolved, rotary rows as halves.

import { rowBytes, type TensorType, tensorLayouts } from '../weights/tensor-type.ts';
import {
  columnsOf,
  readFloatRows,
  readFloats,
  requireTensor,
  type WeightSource,
} from '../weights/weight-source.ts';
import type { InterleavedHeads, NormSpec, RowSlice, VectorSpec } from './spec.ts';

/** How rows of a slice are encoded: as in the file; in float32 where blocks would have to be turned. */
export function rowType(weights: WeightSource, { tensor, transposed }: RowSlice): TensorType {
  const { type } = requireTensor(weights, tensor);
  return transposed !== undefined && tensorLayouts[type].blockSize > 1 ? 'F32' : type;
}

/**
 * Copies rows `first … first + count - 1` of a slice, encoded as `rowType` says, in backend order, into `into`,
 * which holds exactly those.
 */
export function readLinearRows(
  weights: WeightSource,
  slice: RowSlice,
  first: number,
  count: number,
  into: Uint8Array,
): void {
  if (first < 0 || count < 0 || first + count > slice.rows) {
    throw new Error(
      `rows ${first} to ${first + count} of ${slice.tensor} lie outside its ${slice.rows} rows`,
    );
  }
  if (slice.transposed !== undefined) {
    readTransposed(weights, slice, slice.transposed, first, count, into);
    return;
  }
  if (slice.interleaved === undefined && slice.runs === undefined) {
    weights.readRows(slice.tensor, slice.firstRow + first, count, into);
    return;
  }
  if (count === 0) return;
  const tensor = requireTensor(weights, slice.tensor);
  const bytesPerRow = rowBytes(tensor.type, columnsOf(tensor));
  const places = Array.from({ length: count }, (_, index) => storedRow(slice, first + index));
  const begin = places.reduce((least, place) => Math.min(least, place));
  const end = places.reduce((most, place) => Math.max(most, place)) + 1;
  // All that lies between is read at once: rows of one slice are close together.
  const stored = new Uint8Array((end - begin) * bytesPerRow);
  weights.readRows(slice.tensor, begin, end - begin, stored);
  for (const [index, place] of places.entries()) {
    const at = (place - begin) * bytesPerRow;
    into.set(stored.subarray(at, at + bytesPerRow), index * bytesPerRow);
  }
}

/** Of matrices each of which has its inputs as rows, and `transposed.rows` values in a row. */
function readTransposed(
  weights: WeightSource,
  slice: RowSlice,
  { rows, every }: NonNullable<RowSlice['transposed']>,
  first: number,
  count: number,
  into: Uint8Array,
): void {
  if (count === 0) return;
  const type = rowType(weights, slice);
  const valueBytes = rowBytes(type, 1);
  const inputs = into.length / valueBytes / count;
  let stored = new Uint8Array(0);
  let inMemory = -1;
  for (let index = 0; index < count; index++) {
    const place = storedRow(slice, first + index);
    const matrix = Math.floor(place / rows);
    if (matrix !== inMemory)
      stored = readValues(weights, slice.tensor, type, matrix * (every ?? inputs), inputs);
    inMemory = matrix;
    for (let input = 0; input < inputs; input++) {
      const at = (input * rows + (place % rows)) * valueBytes;
      const to = (index * inputs + input) * valueBytes;
      for (let byte = 0; byte < valueBytes; byte++) into[to + byte] = stored[at + byte] as number;
    }
  }
}

/** Rows of a tensor in its own type, which is one of floats, or in float32. */
function readValues(
  weights: WeightSource,
  name: string,
  type: TensorType,
  first: number,
  count: number,
): Uint8Array<ArrayBuffer> {
  const tensor = requireTensor(weights, name);
  if (tensor.type !== type) return new Uint8Array(readFloatRows(weights, name, first, count).buffer);
  const stored = new Uint8Array(count * rowBytes(type, columnsOf(tensor)));
  weights.readRows(name, first, count, stored);
  return stored;
}

export function readBias(weights: WeightSource, slice: RowSlice): Float32Array<ArrayBuffer> {
  const stored = readFloats(weights, slice.tensor);
  return Float32Array.from({ length: slice.rows }, (_, row) => stored[storedRow(slice, row)] as number);
}

/** A norm as backends apply it. */
export interface NormWeights {
  readonly kind: NormSpec['kind'];
  readonly weight?: Float32Array<ArrayBuffer>;
  readonly bias?: Float32Array<ArrayBuffer>;
}

export function readNorm(weights: WeightSource, norm: NormSpec): NormWeights {
  const { kind, weight, bias } = norm;
  return {
    kind,
    ...(weight === undefined ? {} : { weight: normWeights(weights, norm, [weight].flat()) }),
    ...(bias === undefined ? {} : { bias: readFloats(weights, bias) }),
  };
}

export function readVector(
  weights: WeightSource,
  { tensor, negativeExponential }: VectorSpec,
): Float32Array<ArrayBuffer> {
  const stored = readFloats(weights, tensor);
  return negativeExponential ? stored.map((value) => -Math.exp(value)) : stored;
}

function normWeights(
  weights: WeightSource,
  { offset = 0, factor = 1, interleaved }: NormSpec,
  tensors: readonly string[],
): Float32Array<ArrayBuffer> {
  const stored = tensors.flatMap((tensor) => [...readFloats(weights, tensor)]);
  return Float32Array.from(stored, (_, index) => {
    const at = interleaved === undefined ? index : pairedRow(stored.length, interleaved, index);
    return ((stored[at] as number) + offset) * factor;
  });
}

/** Where the tensor stores the row that backends call `row`. */
function storedRow(slice: RowSlice, row: number): number {
  const { runs, interleaved } = slice;
  const at = interleaved === undefined ? row : pairedRow(slice.rows, interleaved, row);
  if (runs === undefined) return slice.firstRow + at;
  return slice.firstRow + Math.floor(at / runs.rows) * runs.every + (at % runs.rows);
}

/** Halves (i, i + half) from pairs (2i, 2i + 1). */
function pairedRow(rows: number, { heads, rotated }: InterleavedHeads, row: number): number {
  const inHead = row % (rows / heads);
  const half = rotated / 2;
  if (inHead >= rotated) return row;
  return row - inHead + (inHead < half ? 2 * inHead : 2 * (inHead - half) + 1);
}
