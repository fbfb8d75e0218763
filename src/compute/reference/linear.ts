// Linear maps whose weights stay encoded as in the file; a row is decoded when it is needed, once for all rows of a batch.

import type { LinearBounds } from '../../model/leaves.ts';
import { type OutputFactors, outputFactors } from '../../model/output-factors.ts';
import type { AdditionSpec, LinearSpec, RowSlice } from '../../model/spec.ts';
import { readBias, readLinearRows, rowType } from '../../model/weight-reader.ts';
import { dequantize } from '../../weights/quants/dequantize.ts';
import { rowBytes, type TensorType } from '../../weights/tensor-type.ts';
import type { WeightSource } from '../../weights/weight-source.ts';
import { dot } from './vector.ts';

export interface Matrix {
  readonly type: TensorType;
  readonly rows: number;
  readonly columns: number;
  readonly bytesPerRow: number;
  readonly bytes: Uint8Array;
}

export interface Linear {
  readonly matrix: Matrix;
  readonly bias: Float32Array | undefined;
  readonly bounds?: LinearBounds;
  readonly additions?: { readonly byAdapter: ReadonlyMap<number, Addition>; readonly rows: RowAdapters };
}

/** The adapter of each row of the current step; negative: none. */
export interface RowAdapters {
  current: Int32Array;
}

/** An adapter adds `scale * up(down(x))`, then scales and shifts the sum (DoRA). */
interface Addition {
  readonly down: Matrix;
  readonly up: Matrix;
  readonly scale: number;
  readonly output: OutputFactors | undefined;
}

const READ_BYTES = 2 ** 24;

export function loadMatrix(weights: WeightSource, slice: RowSlice, columns: number): Matrix {
  const type = rowType(weights, slice);
  const bytesPerRow = rowBytes(type, columns);
  const bytes = new Uint8Array(slice.rows * bytesPerRow);
  const rowsAtOnce = Math.max(1, Math.floor(READ_BYTES / bytesPerRow));
  for (let first = 0; first < slice.rows; first += rowsAtOnce) {
    const count = Math.min(rowsAtOnce, slice.rows - first);
    const into = bytes.subarray(first * bytesPerRow, (first + count) * bytesPerRow);
    readLinearRows(weights, slice, first, count, into);
  }
  return { type, rows: slice.rows, columns, bytesPerRow, bytes };
}

/** `matrix`: if it is loaded already. */
export function loadLinear(
  weights: WeightSource,
  spec: LinearSpec,
  rows?: RowAdapters,
  matrix = loadMatrix(weights, spec.weight, spec.columns),
): Linear {
  return {
    matrix,
    bias: spec.bias === undefined ? undefined : readBias(weights, spec.bias),
    ...(spec.bounds && { bounds: spec.bounds }),
    ...(spec.additions &&
      rows && { additions: { byAdapter: loadAdditions(weights, spec, spec.additions), rows } }),
  };
}

function loadAdditions(
  weights: WeightSource,
  linear: LinearSpec,
  additions: readonly AdditionSpec[],
): ReadonlyMap<number, Addition> {
  return new Map(
    additions.map((addition) => {
      const { adapter, rank, scale, down, up } = addition;
      const matrices = {
        down: loadMatrix(weights, down, linear.columns),
        up: loadMatrix(weights, up, rank),
      };
      return [adapter, { ...matrices, scale, output: outputFactors(weights, linear, addition) }];
    }),
  );
}

export function decodeRow(matrix: Matrix, row: number, into: Float32Array): void {
  const at = row * matrix.bytesPerRow;
  dequantize(matrix.type, matrix.bytes.subarray(at, at + matrix.bytesPerRow), into);
}

/**
 * Maps every row of `input`, `columns` values each. `stepRows` are their rows of the step; absent: all rows in order.
 */
export function applyLinear(
  { matrix, bias, bounds, additions }: Linear,
  input: Float32Array,
  stepRows?: ArrayLike<number>,
): Float32Array {
  if (bounds !== undefined) {
    return within(applyMatrix(matrix, bias, within(input, bounds.inputs)), bounds.outputs);
  }
  const output = applyMatrix(matrix, bias, input);
  if (additions === undefined) return output;
  for (let row = 0; row < input.length / matrix.columns; row++) {
    const adapter = additions.rows.current[stepRows?.[row] ?? row] ?? -1;
    const addition = additions.byAdapter.get(adapter);
    if (addition === undefined) continue;
    const own = input.subarray(row * matrix.columns, (row + 1) * matrix.columns);
    const added = applyMatrix(addition.up, undefined, applyMatrix(addition.down, undefined, own));
    for (const [index, value] of added.entries()) {
      const at = row * matrix.rows + index;
      const sum = (output[at] as number) + addition.scale * value;
      const { factors, shifts } = addition.output ?? {};
      output[at] = sum * (factors?.[index] ?? 1) + (shifts?.[index] ?? 0);
    }
  }
  return output;
}

function within(values: Float32Array, [least, most]: readonly [number, number]): Float32Array {
  return values.map((value) => Math.min(most, Math.max(least, value)));
}

function applyMatrix(
  matrix: Matrix,
  bias: Float32Array | undefined,
  input: Float32Array,
): Float32Array<ArrayBuffer> {
  const { rows, columns } = matrix;
  const count = input.length / columns;
  const output = new Float32Array(count * rows);
  const weights = new Float32Array(columns);
  for (let row = 0; row < rows; row++) {
    decodeRow(matrix, row, weights);
    const shift = bias?.[row] ?? 0;
    for (let index = 0; index < count; index++) {
      output[index * rows + row] = dot(weights, 0, input, index * columns, columns) + shift;
    }
  }
  return output;
}

/** Concatenates the results of several maps, row by row. */
export function applySideBySide(linears: readonly Linear[], input: Float32Array): Float32Array {
  const parts = linears.map((linear) => applyLinear(linear, input));
  const width = linears.reduce((sum, { matrix }) => sum + matrix.rows, 0);
  const rows = input.length / (linears[0]?.matrix.columns ?? 1);
  const joined = new Float32Array(rows * width);
  for (let row = 0; row < rows; row++) {
    let at = row * width;
    for (const [index, part] of parts.entries()) {
      const size = linears[index]?.matrix.rows ?? 0;
      joined.set(part.subarray(row * size, (row + 1) * size), at);
      at += size;
    }
  }
  return joined;
}

/** Maps each head by its own rows of the matrix. */
export function applyByHead({ matrix }: Linear, input: Float32Array, heads: number): Float32Array {
  const { columns } = matrix;
  const size = matrix.rows / heads;
  const count = input.length / (heads * columns);
  const output = new Float32Array(count * matrix.rows);
  const weights = new Float32Array(columns);
  for (let row = 0; row < matrix.rows; row++) {
    decodeRow(matrix, row, weights);
    const head = Math.floor(row / size);
    for (let index = 0; index < count; index++) {
      output[index * matrix.rows + row] = dot(weights, 0, input, (index * heads + head) * columns, columns);
    }
  }
  return output;
}
