// GGUF's first family: 32 values with one scale, and in the _1 types one minimum.
//   Q8_0 { half d; int8 q[32] }                    d * q
//   Q4_0 { half d; nibbles q[16] }                 d * (q - 8)
//   Q4_1 { half d; half m; nibbles q[16] }         d * q + m
//   Q5_0, Q5_1: as Q4 with the fifth bits in a uint32 before the nibbles; Q5_0 is d * (q - 16)

import { type BlockDecoder, byteAt, signedByteAt } from './block-decoder.ts';
import { halfAt } from './half.ts';

export const decodeQ8_0: BlockDecoder = (bytes, at, out, to) => {
  const scale = halfAt(bytes, at);
  for (let i = 0; i < 32; i++) out[to + i] = scale * signedByteAt(bytes, at + 2 + i);
};

export const decodeQ4_0: BlockDecoder = (bytes, at, out, to) => {
  const scale = halfAt(bytes, at);
  decodeNibbles(bytes, at + 2, out, to, scale, -8 * scale);
};

export const decodeQ4_1: BlockDecoder = (bytes, at, out, to) => {
  decodeNibbles(bytes, at + 4, out, to, halfAt(bytes, at), halfAt(bytes, at + 2));
};

export const decodeQ5_0: BlockDecoder = (bytes, at, out, to) => {
  const scale = halfAt(bytes, at);
  decodeFiveBits(bytes, at + 2, out, to, scale, -16 * scale);
};

export const decodeQ5_1: BlockDecoder = (bytes, at, out, to) => {
  decodeFiveBits(bytes, at + 4, out, to, halfAt(bytes, at), halfAt(bytes, at + 2));
};

/** Low nibbles are the first 16 values, high nibbles the last 16. */
function decodeNibbles(
  bytes: Uint8Array,
  at: number,
  out: Float32Array,
  to: number,
  scale: number,
  bias: number,
): void {
  for (let i = 0; i < 16; i++) {
    const pair = byteAt(bytes, at + i);
    out[to + i] = scale * (pair & 15) + bias;
    out[to + 16 + i] = scale * (pair >> 4) + bias;
  }
}

function decodeFiveBits(
  bytes: Uint8Array,
  at: number,
  out: Float32Array,
  to: number,
  scale: number,
  bias: number,
): void {
  for (let i = 0; i < 16; i++) {
    const pair = byteAt(bytes, at + 4 + i);
    const lowFifth = (byteAt(bytes, at + (i >> 3)) >> (i & 7)) & 1;
    const highFifth = (byteAt(bytes, at + 2 + (i >> 3)) >> (i & 7)) & 1;
    out[to + i] = scale * ((pair & 15) | (lowFifth << 4)) + bias;
    out[to + 16 + i] = scale * ((pair >> 4) | (highFifth << 4)) + bias;
  }
}
