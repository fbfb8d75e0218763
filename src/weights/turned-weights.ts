// Matrices of floats with rows and columns exchanged: small ones, that are read whole for each piece.

import { requireTensor } from './read-tensor.ts';
import { rowBytes } from './tensor-type.ts';
import { columnsOf, rowsOf, type TensorInfo, type WeightSource } from './weight-source.ts';

/** Matrices of `stored` turned; all else, such as vectors, is as it is. */
export function turnedWeights(stored: WeightSource): WeightSource {
  const turn = (tensor: TensorInfo): TensorInfo =>
    isMatrix(tensor) ? { ...tensor, shape: tensor.shape.toReversed() } : tensor;
  return {
    tensors: new Map([...stored.tensors].map(([name, tensor]) => [name, turn(tensor)])),
    readRows(name, first, count, into) {
      const tensor = requireTensor(stored, name);
      if (!isMatrix(tensor)) stored.readRows(name, first, count, into);
      else readColumns(stored, tensor, first, count, into);
    },
    close: () => stored.close(),
  };
}

const isMatrix = ({ shape }: TensorInfo): boolean => shape.length === 2;

function readColumns(
  stored: WeightSource,
  tensor: TensorInfo,
  first: number,
  count: number,
  into: Uint8Array,
): void {
  const [rows, columns, bytes] = [rowsOf(tensor), columnsOf(tensor), rowBytes(tensor.type, 1)];
  if (first < 0 || count < 0 || first + count > columns || into.length !== count * rows * bytes) {
    throw new RangeError(`rows ${first} to ${first + count} of ${tensor.name} do not fit`);
  }
  const values = new Uint8Array(rows * columns * bytes);
  stored.readRows(tensor.name, 0, rows, values);
  for (let column = 0, to = 0; column < count; column++) {
    for (let row = 0; row < rows; row++, to += bytes) {
      const at = (row * columns + first + column) * bytes;
      for (let byte = 0; byte < bytes; byte++) into[to + byte] = values[at + byte] as number;
    }
  }
}
