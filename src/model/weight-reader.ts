// Reads the tensors a ModelSpec names in the order backends know: slices resolved, rotary rows as halves.

import { readFloats, requireTensor } from '../weights/read-tensor.ts';
import { rowBytes } from '../weights/tensor-type.ts';
import { columnsOf, type WeightSource } from '../weights/weight-source.ts';
import type { RowSlice } from './spec.ts';

/**
 * Copies rows `first … first + count - 1` of a slice, encoded as in the file, in backend order, into `into`,
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
  if (slice.interleavedHeads === undefined) {
    weights.readRows(slice.tensor, slice.firstRow + first, count, into);
    return;
  }
  const tensor = requireTensor(weights, slice.tensor);
  const bytesPerRow = rowBytes(tensor.type, columnsOf(tensor));
  // Whole heads are read, since a row's place in the file is anywhere within its head.
  const headRows = slice.rows / slice.interleavedHeads;
  const fileFirst = Math.floor(first / headRows) * headRows;
  const fileEnd = Math.ceil((first + count) / headRows) * headRows;
  const stored = new Uint8Array((fileEnd - fileFirst) * bytesPerRow);
  weights.readRows(slice.tensor, slice.firstRow + fileFirst, fileEnd - fileFirst, stored);
  for (let index = 0; index < count; index++) {
    const at = (storedRow(slice, first + index) - fileFirst) * bytesPerRow;
    into.set(stored.subarray(at, at + bytesPerRow), index * bytesPerRow);
  }
}

/** A bias in backend order. */
export function readBias(weights: WeightSource, slice: RowSlice): Float32Array<ArrayBuffer> {
  const stored = readFloats(weights, slice.tensor);
  return Float32Array.from(
    { length: slice.rows },
    (_, row) => stored[slice.firstRow + storedRow(slice, row)] as number,
  );
}

/** A norm's weights with the model's offset added. */
export function readNorm(weights: WeightSource, tensor: string, offset: number): Float32Array<ArrayBuffer> {
  return readFloats(weights, tensor).map((value) => value + offset);
}

/** Where the slice stores the row that backends call `row`: halves (i, i + half) from pairs (2i, 2i + 1). */
function storedRow(slice: RowSlice, row: number): number {
  if (slice.interleavedHeads === undefined) return row;
  const headRows = slice.rows / slice.interleavedHeads;
  const half = headRows / 2;
  const inHead = row % headRows;
  return row - inHead + (inHead < half ? 2 * inHead : 2 * (inHead - half) + 1);
}
