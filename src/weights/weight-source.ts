// The contract between weight files and everything that reads tensors from them.

import type { TensorType } from './tensor-type.ts';

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
