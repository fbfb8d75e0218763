// MLX's affine groups: scale * q + bias, after { float32 scale; float32 bias }. Values of four bits lie two to
// a byte, the earlier one in the low nibble.

import { type BlockDecoder, byteAt } from './block-decoder.ts';

export function mlxDecoder(bits: 4 | 8, groupSize: number): BlockDecoder {
  const decodeValues = bits === 4 ? decodeNibblePairs : decodeBytes;
  return (bytes, at, out, to) => {
    const header = new DataView(bytes.buffer, bytes.byteOffset + at, 8);
    const scale = header.getFloat32(0, true);
    const bias = header.getFloat32(4, true);
    decodeValues(bytes, at + 8, out, to, groupSize, scale, bias);
  };
}

function decodeNibblePairs(
  bytes: Uint8Array,
  at: number,
  out: Float32Array,
  to: number,
  count: number,
  scale: number,
  bias: number,
): void {
  for (let i = 0; i < count; i += 2) {
    const pair = byteAt(bytes, at + (i >> 1));
    out[to + i] = scale * (pair & 15) + bias;
    out[to + i + 1] = scale * (pair >> 4) + bias;
  }
}

function decodeBytes(
  bytes: Uint8Array,
  at: number,
  out: Float32Array,
  to: number,
  count: number,
  scale: number,
  bias: number,
): void {
  for (let i = 0; i < count; i++) out[to + i] = scale * byteAt(bytes, at + i) + bias;
}
