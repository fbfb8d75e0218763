// What DoRA makes of a linear map: every output is multiplied by the trained magnitude of its row, over the length that the row
// has with what the adapter adds. The bias stays as it is.

import { setImmediate } from 'node:timers/promises';
import { dequantize } from '../weights/quants/dequantize.ts';
import { rowBytes } from '../weights/tensor-type.ts';
import type { WeightSource } from '../weights/weight-source.ts';
import type { AdditionSpec, LinearSpec, MatrixSpec, ModelSpec, RowSlice } from './spec.ts';
import { adaptableLinears } from './spec-walk.ts';
import { readBias, readLinearRows, rowType } from './weight-reader.ts';

/** With `sum = W x + bias + scale * up(down(x))`: `factors * sum + shifts`. */
export interface OutputFactors {
  readonly factors: Float32Array<ArrayBuffer>;
  readonly shifts: Float32Array<ArrayBuffer>;
}

const PIECE_BYTES = 4 << 20;

/** Of all additions that have a magnitude. Every row of their matrices is read: others get their turn in between. */
export async function readOutputFactors(
  spec: ModelSpec,
  weights: WeightSource,
): Promise<ReadonlyMap<AdditionSpec, OutputFactors>> {
  const all = new Map<AdditionSpec, OutputFactors>();
  for (const linear of adaptableLinears(spec)) {
    for (const addition of linear.additions ?? []) {
      const factors = outputFactors(weights, linear, addition);
      if (factors === undefined) continue;
      all.set(addition, factors);
      await setImmediate();
    }
  }
  return all;
}

export function outputFactors(
  weights: WeightSource,
  linear: Pick<LinearSpec, 'weight' | 'columns' | 'bias'>,
  addition: AdditionSpec,
): OutputFactors | undefined {
  if (addition.magnitude === undefined) return undefined;
  const magnitudes = readBias(weights, addition.magnitude);
  const lengths = rowLengths(weights, linear, addition);
  const factors = magnitudes.map((magnitude, row) => magnitude / (lengths[row] as number));
  const bias = linear.bias === undefined ? undefined : readBias(weights, linear.bias);
  return { factors, shifts: factors.map((factor, row) => (bias?.[row] ?? 0) * (1 - factor)) };
}

function rowLengths(
  weights: WeightSource,
  { weight, columns }: MatrixSpec,
  { rank, scale, down, up }: AdditionSpec,
): Float32Array {
  const downs = readFloats(weights, down, columns, 0, rank);
  const ups = readFloats(weights, up, rank, 0, weight.rows);
  const lengths = new Float32Array(weight.rows);
  const step = Math.max(1, Math.floor(PIECE_BYTES / (4 * columns)));
  for (let first = 0; first < weight.rows; first += step) {
    const count = Math.min(step, weight.rows - first);
    const rows = readFloats(weights, weight, columns, first, count);
    for (let row = 0; row < count; row++) {
      const own = rows.subarray(row * columns, (row + 1) * columns);
      for (let k = 0; k < rank; k++) {
        addScaled(own, downs, k * columns, scale * (ups[(first + row) * rank + k] as number));
      }
      lengths[first + row] = lengthOf(own);
    }
  }
  return lengths;
}

// Billions of values go through these two: they are kept small, so that they are compiled well.

function addScaled(to: Float32Array, from: Float32Array, at: number, factor: number): void {
  for (let i = 0; i < to.length; i++) to[i] = (to[i] as number) + factor * (from[at + i] as number);
}

function lengthOf(row: Float32Array): number {
  let total = 0;
  for (let i = 0; i < row.length; i++) total += (row[i] as number) ** 2;
  return Math.sqrt(total);
}

function readFloats(
  weights: WeightSource,
  slice: RowSlice,
  columns: number,
  first: number,
  count: number,
): Float32Array {
  const type = rowType(weights, slice);
  const bytes = new Uint8Array(count * rowBytes(type, columns));
  readLinearRows(weights, slice, first, count, bytes);
  const floats = new Float32Array(count * columns);
  dequantize(type, bytes, floats);
  return floats;
}
