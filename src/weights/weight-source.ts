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
   * Copies rows `first … first + count - 1` of a tensor into `into`, which holds exactly
   * `count * rowBytes(type, columns)` bytes. A vector is one row. Reads only those bytes of the file.
   */
  readRows(name: string, first: number, count: number, into: Uint8Array): void;
  close(): void;
}

export function columnsOf(tensor: TensorInfo): number {
  return tensor.shape[tensor.shape.length - 1] ?? 1;
}

export function rowsOf(tensor: TensorInfo): number {
  return tensor.shape.slice(0, -1).reduce((product, size) => product * size, 1);
}

/** The tensor's description; where there is none, the source's own error about that name. */
export function requireTensor(source: WeightSource, name: string): TensorInfo {
  const tensor = source.tensors.get(name);
  if (tensor !== undefined) return tensor;
  source.readRows(name, 0, 0, new Uint8Array(0));
  throw new Error(`${name} can be read but is not listed`);
}

/** Rows `first … first + count - 1` as float32, one after the other. */
export function readFloatRows(
  source: WeightSource,
  name: string,
  first: number,
  count: number,
): Float32Array<ArrayBuffer> {
  const tensor = requireTensor(source, name);
  // Rows outside the tensor get the source's error before anything of their size is allocated.
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

/** A whole tensor as float32. */
export function readFloats(source: WeightSource, name: string): Float32Array<ArrayBuffer> {
  return readFloatRows(source, name, 0, rowsOf(requireTensor(source, name)));
}
