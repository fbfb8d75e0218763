// GGUF's K family: blocks of 256 values in groups of 16 or 32; each group's scale (and minimum) is a small
// integer on one half-precision scale of the block. All products fit 24 bits, so each value rounds once.
//   Q2_K { scale|min<<4 [16]; 2 bits q[64]; half d, dmin }                   d*scale*q - dmin*min
//   Q3_K { third bits [32]; 2 bits q[64]; 6-bit scales [12]; half d }        d*(scale-32)*(q-4)
//   Q4_K { half d, dmin; 6-bit scales and mins [12]; nibbles q[128] }        d*scale*q - dmin*min
//   Q5_K { half d, dmin; 6-bit scales and mins [12]; fifth bits [32]; nibbles q[128] }
//   Q6_K { nibbles [128]; upper 2 bits [64]; int8 scales [16]; half d }      d*scale*(q-32)

import { type BlockDecoder, byteAt, signedByteAt } from './block-decoder.ts';
import { halfAt } from './half.ts';

export const decodeQ2_K: BlockDecoder = (bytes, at, out, to) => {
  const d = halfAt(bytes, at + 80);
  const dmin = halfAt(bytes, at + 82);
  for (let group = 0; group < 16; group++) {
    const packed = byteAt(bytes, at + group);
    const scale = d * (packed & 15);
    const minimum = dmin * (packed >> 4);
    const shift = group & 6;
    const values = at + 16 + (group >> 3) * 32 + (group & 1) * 16;
    for (let i = 0; i < 16; i++) {
      out[to + group * 16 + i] = scale * ((byteAt(bytes, values + i) >> shift) & 3) - minimum;
    }
  }
};

export const decodeQ3_K: BlockDecoder = (bytes, at, out, to) => {
  const d = halfAt(bytes, at + 108);
  for (let group = 0; group < 16; group++) {
    const scale = d * (sixBitScaleQ3(bytes, at + 96, group) - 32);
    const shift = group & 6;
    const column = (group & 1) * 16;
    const values = at + 32 + (group >> 3) * 32 + column;
    for (let i = 0; i < 16; i++) {
      const low = (byteAt(bytes, values + i) >> shift) & 3;
      const high = (byteAt(bytes, at + column + i) >> (group >> 1)) & 1;
      out[to + group * 16 + i] = scale * (low + 4 * high - 4);
    }
  }
};

/** Sixteen scales in 12 bytes: low nibbles in the first 8, their upper two bits in the last 4. */
function sixBitScaleQ3(bytes: Uint8Array, at: number, group: number): number {
  const low = (byteAt(bytes, at + (group & 7)) >> (group < 8 ? 0 : 4)) & 15;
  const high = (byteAt(bytes, at + 8 + (group & 3)) >> (2 * (group >> 2))) & 3;
  return low | (high << 4);
}

export const decodeQ4_K: BlockDecoder = (bytes, at, out, to) => {
  const d = halfAt(bytes, at);
  const dmin = halfAt(bytes, at + 2);
  for (let group = 0; group < 8; group++) {
    const scale = d * sixBitScale(bytes, at + 4, group);
    const minimum = dmin * sixBitMinimum(bytes, at + 4, group);
    const values = at + 16 + (group >> 1) * 32;
    const shift = (group & 1) * 4;
    for (let i = 0; i < 32; i++) {
      out[to + group * 32 + i] = scale * ((byteAt(bytes, values + i) >> shift) & 15) - minimum;
    }
  }
};

export const decodeQ5_K: BlockDecoder = (bytes, at, out, to) => {
  const d = halfAt(bytes, at);
  const dmin = halfAt(bytes, at + 2);
  for (let group = 0; group < 8; group++) {
    const scale = d * sixBitScale(bytes, at + 4, group);
    const minimum = dmin * sixBitMinimum(bytes, at + 4, group);
    const values = at + 48 + (group >> 1) * 32;
    const shift = (group & 1) * 4;
    for (let i = 0; i < 32; i++) {
      const low = (byteAt(bytes, values + i) >> shift) & 15;
      const high = (byteAt(bytes, at + 16 + i) >> group) & 1;
      out[to + group * 32 + i] = scale * (low | (high << 4)) - minimum;
    }
  }
};

// Eight scales and eight minimums in 12 bytes: bytes 0-3 and 4-7 hold the first four of each in their
// lower six bits and the top two bits of the last four above them; bytes 8-11 hold the last four's nibbles.
function sixBitScale(bytes: Uint8Array, at: number, group: number): number {
  if (group < 4) return byteAt(bytes, at + group) & 63;
  return (byteAt(bytes, at + group + 4) & 15) | ((byteAt(bytes, at + group - 4) >> 6) << 4);
}

function sixBitMinimum(bytes: Uint8Array, at: number, group: number): number {
  if (group < 4) return byteAt(bytes, at + group + 4) & 63;
  return (byteAt(bytes, at + group + 4) >> 4) | ((byteAt(bytes, at + group) >> 6) << 4);
}

export const decodeQ6_K: BlockDecoder = (bytes, at, out, to) => {
  const d = halfAt(bytes, at + 208);
  for (let group = 0; group < 16; group++) {
    const scale = d * signedByteAt(bytes, at + 192 + group);
    const half = group >> 3;
    const quarter = (group >> 1) & 3;
    const column = (group & 1) * 16;
    const nibbles = at + half * 64 + (quarter & 1) * 32 + column;
    const uppers = at + 128 + half * 32 + column;
    for (let i = 0; i < 16; i++) {
      const low = (byteAt(bytes, nibbles + i) >> ((quarter >> 1) * 4)) & 15;
      const high = (byteAt(bytes, uppers + i) >> (quarter * 2)) & 3;
      out[to + group * 16 + i] = scale * ((low | (high << 4)) - 32);
    }
  }
};
