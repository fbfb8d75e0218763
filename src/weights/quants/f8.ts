// Floats of eight bits: sign, four bits of exponent, three of mantissa, no infinities, one NaN of each sign. Groups have a scale:
//   F8_G32, F8_G128 { float32 scale; uint8 q[32 or 128] }     scale * f8[q]

import { byteAt } from './group.ts';

export const f8Values = Float32Array.from({ length: 256 }, (_, bits) => {
  const [exponent, mantissa] = [(bits >> 3) & 15, bits & 7];
  if ((bits & 127) === 127) return Number.NaN;
  const magnitude = exponent === 0 ? mantissa * 2 ** -9 : (8 + mantissa) * 2 ** (exponent - 10);
  return bits < 128 ? magnitude : -magnitude;
});

export function decodeF8(groupSize: number, bytes: Uint8Array, out: Float32Array): void {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  for (let to = 0, at = 0; to < out.length; at += 4 + groupSize) {
    const scale = view.getFloat32(at, true);
    for (let i = 0; i < groupSize; i++) out[to++] = scale * (f8Values[byteAt(bytes, at + 4 + i)] as number);
  }
}
