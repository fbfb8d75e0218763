// Weights that lie in memory, for models made by tests.

import { rowBytes } from '../../src/weights/tensor-type.ts';
import { columnsOf, type TensorInfo, type WeightSource } from '../../src/weights/weight-source.ts';

export interface MemoryTensor extends TensorInfo {
  readonly bytes: Uint8Array;
}

export function memoryWeights(tensors: Iterable<MemoryTensor>): WeightSource {
  const byName = new Map([...tensors].map((tensor) => [tensor.name, tensor]));
  return {
    tensors: byName,
    readRows(name, first, count, into) {
      const tensor = byName.get(name);
      if (tensor === undefined) throw new Error(`there is no tensor ${name}`);
      const bytesPerRow = rowBytes(tensor.type, columnsOf(tensor));
      into.set(tensor.bytes.subarray(first * bytesPerRow, (first + count) * bytesPerRow));
    },
    close() {},
  };
}

export function floatTensor(name: string, shape: readonly number[], values: Float32Array): MemoryTensor {
  return {
    name,
    type: 'F32',
    shape,
    bytes: new Uint8Array(values.buffer, values.byteOffset, values.byteLength),
  };
}
