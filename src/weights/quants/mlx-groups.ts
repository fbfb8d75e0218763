// MLX's affine groups: scale * q + bias, after { float32 scale; float32 bias }. Values lie in a row of bits, the first in the
// lowest.

import { byteAt, type GroupReader, setScale, shortAt } from './group.ts';

type ReadValues = (bytes: Uint8Array, at: number, values: Int16Array) => void;

export function mlxReader(bits: 2 | 3 | 4 | 5 | 6 | 8): GroupReader {
  const readValues = bits === 4 ? readNibblePairs : bits === 8 ? readBytes : bitReader(bits);
  return (bytes, at, group, to) => {
    const header = new DataView(bytes.buffer, bytes.byteOffset + at, 8);
    setScale(to, header.getFloat32(0, true), header.getFloat32(4, true));
    readValues(bytes, at + 8 + group * 4 * bits, to.values);
  };
}

/** A value reaches into two bytes at most; past the end of the last there is nothing of it. */
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
