// The contract between weight files and everything that reads tensors from them.

import { dequantize } from './quants/dequantize.ts';
import { rowBytes, type TensorType } from './tensor-type.ts';

export interface TensorInfo {
  readonly name: string;
  readonly type: TensorType;
  /** Outermost dimension first; the last one is contiguous. A vector has one dimension. */
  readonly shape: readonly number[];
}

export interface WeightSource {
  readonly tensors: ReadonlyMap<string, TensorInfo>;
  /**
   * Copies rows `first … first + count - 1` into `into`, which has exactly `count * rowBytes(type, columns)` bytes. A
   * vector is one row.
   */
  readRows(name: string, first: number, count: number, into: Uint8Array): void;
  close(): void;
}

/** Of both; what both have is the second's. Closing them closes both. */
export function joinedWeights(first: WeightSource, second: WeightSource): WeightSource {
  return {
    tensors: new Map([...first.tensors, ...second.tensors]),
    readRows: (name, from, count, into) =>
      (second.tensors.has(name) ? second : first).readRows(name, from, count, into),
    close() {
      first.close();
      second.close();
    },
  };
}

export function columnsOf(tensor: TensorInfo): number {
  return tensor.shape[tensor.shape.length - 1] ?? 1;
}

export function rowsOf(tensor: TensorInfo): number {
  return tensor.shape.slice(0, -1).reduce((product, size) => product * size, 1);
}

/** Throws the source's own error for an unknown name. */
export function requireTensor(source: WeightSource, name: string): TensorInfo {
  const tensor = source.tensors.get(name);
  if (tensor !== undefined) return tensor;
  source.readRows(name, 0, 0, new Uint8Array(0));
  throw new Error(`${name} can be read but is not listed`);
}

/** Rows `first … first + count - 1`. */
export function readFloatRows(
  source: WeightSource,
  name: string,
  first: number,
  count: number,
): Float32Array<ArrayBuffer> {
  const tensor = requireTensor(source, name);
  // The source refuses rows outside the tensor before memory is allocated.
  if (!(first >= 0 && count >= 0 && first + count <= rowsOf(tensor))) {
    source.readRows(name, first, count, new Uint8Array(0));
  }
  const columns = columnsOf(tensor);
  const bytes = new Uint8Array(count * rowBytes(tensor.type, columns));
  source.readRows(name, first, count, bytes);
  const values = new Float32Array(count * columns);
  dequantize(tensor.type, bytes, values);
  return values;
}

export function readFloats(source: WeightSource, name: string): Float32Array<ArrayBuffer> {
  return readFloatRows(source, name, 0, rowsOf(requireTensor(source, name)));
}
