// MLX's affine groups: scale * q + bias, after { float32 scale; float32 bias }. Values of four bits lie two to
// a byte, the earlier one in the low nibble.

import { byteAt, type GroupReader, setScale } from './group.ts';

export function mlxReader(bits: 4 | 8): GroupReader {
  const readValues = bits === 4 ? readNibblePairs : readBytes;
  return (bytes, at, group, to) => {
    const header = new DataView(bytes.buffer, bytes.byteOffset + at, 8);
    setScale(to, header.getFloat32(0, true), header.getFloat32(4, true));
    readValues(bytes, at + 8 + group * 4 * bits, to.values);
  };
}

function readNibblePairs(bytes: Uint8Array, at: number, values: Int16Array): void {
  for (let i = 0; i < 32; i += 2) {
    const pair = byteAt(bytes, at + (i >> 1));
    values[i] = pair & 15;
    values[i + 1] = pair >> 4;
  }
}

function readBytes(bytes: Uint8Array, at: number, values: Int16Array): void {
  for (let i = 0; i < 32; i++) values[i] = byteAt(bytes, at + i);
}
