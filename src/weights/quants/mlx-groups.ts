// MLX's affine groups: scale * q + bias, after { scale; bias } in one float type. Values lie in a row of bits, the first in
// the lowest.

import { type MlxLayout, mlxScaleBytes } from '../tensor-type.ts';
import { halfToNumber } from './floats.ts';
import { byteAt, type GroupReader, setScale, shortAt, wordAt } from './group.ts';

type ReadValues = (bytes: Uint8Array, at: number, values: Int16Array) => void;

type ReadNumber = (bytes: Uint8Array, at: number) => number;

export function mlxReader({ bits, scale }: MlxLayout): GroupReader {
  const readValues = bits === 4 ? readNibblePairs : bits === 8 ? readBytes : bitReader(bits);
  const [numberAt, numberBytes] = [numberReaders[scale], mlxScaleBytes(scale)];
  return (bytes, at, group, to) => {
    setScale(to, numberAt(bytes, at), numberAt(bytes, at + numberBytes));
    readValues(bytes, at + 2 * numberBytes + group * 4 * bits, to.values);
  };
}

const floatBits = new Uint32Array(1);
const floatValue = new Float32Array(floatBits.buffer);

function floatOf(bits: number): number {
  floatBits[0] = bits;
  return floatValue[0] as number;
}

const numberReaders: Readonly<Record<MlxLayout['scale'], ReadNumber>> = {
  F32: (bytes, at) => floatOf(wordAt(bytes, at)),
  F16: (bytes, at) => halfToNumber(shortAt(bytes, at)),
  // The upper half of a float32.
  BF16: (bytes, at) => floatOf(shortAt(bytes, at) << 16),
};

/** A value spans at most two bytes. */
function bitReader(bits: number): ReadValues {
  const mask = 2 ** bits - 1;
  return (bytes, at, values) => {
    for (let i = 0, bit = 0; i < 32; i++, bit += bits) {
      values[i] = (shortAt(bytes, at + (bit >> 3)) >> (bit & 7)) & mask;
    }
  };
}

const readNibblePairs: ReadValues = (bytes, at, values) => {
  for (let i = 0; i < 32; i += 2) {
    const pair = byteAt(bytes, at + (i >> 1));
    values[i] = pair & 15;
    values[i + 1] = pair >> 4;
  }
};

const readBytes: ReadValues = (bytes, at, values) => {
  for (let i = 0; i < 32; i++) values[i] = byteAt(bytes, at + i);
};
