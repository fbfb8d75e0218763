// GGUF's K family: blocks of 256 values in groups of 16 or 32; each group's scale (and minimum) is a small
// integer on one half-precision scale of the block. All products fit 24 bits, so each value rounds once.
//   Q2_K { scale|min<<4 [16]; 2 bits q[64]; half d, dmin }                   d*scale*q - dmin*min
//   Q3_K { third bits [32]; 2 bits q[64]; 6-bit scales [12]; half d }        d*(scale-32)*(q-4)
//   Q4_K { half d, dmin; 6-bit scales and mins [12]; nibbles q[128] }        d*scale*q - dmin*min
//   Q5_K { half d, dmin; 6-bit scales and mins [12]; fifth bits [32]; nibbles q[128] }
//   Q6_K { nibbles [128]; upper 2 bits [64]; int8 scales [16]; half d }      d*scale*(q-32)

import { halfAt } from './floats.ts';
import { byteAt, type Group, type GroupReader, setScale, signedByteAt } from './group.ts';

export const readQ2_K: GroupReader = (bytes, at, group, to) => {
  const d = halfAt(bytes, at + 80);
  const dmin = halfAt(bytes, at + 82);
  for (let half = 0; half < 2; half++) {
    const packed = byteAt(bytes, at + 2 * group + half);
    to.scales[half] = d * (packed & 15);
    to.minimums[half] = -dmin * (packed >> 4);
  }
  readTwoBits(bytes, at + 16, group, to.values);
};

export const readQ3_K: GroupReader = (bytes, at, group, to) => {
  const d = halfAt(bytes, at + 108);
  for (let half = 0; half < 2; half++) {
    to.scales[half] = d * (sixBitScaleQ3(bytes, at + 96, 2 * group + half) - 32);
    to.minimums[half] = 0;
  }
  readTwoBits(bytes, at + 32, group, to.values);
  for (let i = 0; i < 32; i++) {
    const high = (byteAt(bytes, at + i) >> group) & 1;
    to.values[i] = (to.values[i] as number) + 4 * high - 4;
  }
};

function readTwoBits(bytes: Uint8Array, at: number, group: number, values: Int16Array): void {
  const from = at + (group >> 2) * 32;
  const shift = 2 * (group & 3);
  for (let i = 0; i < 32; i++) values[i] = (byteAt(bytes, from + i) >> shift) & 3;
}

/** Sixteen scales in 12 bytes: low nibbles in the first 8, their upper two bits in the last 4. */
function sixBitScaleQ3(bytes: Uint8Array, at: number, index: number): number {
  const low = (byteAt(bytes, at + (index & 7)) >> (index < 8 ? 0 : 4)) & 15;
  const high = (byteAt(bytes, at + 8 + (index & 3)) >> (2 * (index >> 2))) & 3;
  return low | (high << 4);
}

export const readQ4_K: GroupReader = (bytes, at, group, to) => {
  readSixBitScales(bytes, at, group, to);
  readNibbleRow(bytes, at + 16, group, to.values);
};

export const readQ5_K: GroupReader = (bytes, at, group, to) => {
  readSixBitScales(bytes, at, group, to);
  readNibbleRow(bytes, at + 48, group, to.values);
  for (let i = 0; i < 32; i++) {
    const high = (byteAt(bytes, at + 16 + i) >> group) & 1;
    to.values[i] = (to.values[i] as number) | (high << 4);
  }
};

/** Two groups share 32 bytes: one has the low, the next the high nibbles. */
function readNibbleRow(bytes: Uint8Array, at: number, group: number, values: Int16Array): void {
  const from = at + (group >> 1) * 32;
  const shift = (group & 1) * 4;
  for (let i = 0; i < 32; i++) values[i] = (byteAt(bytes, from + i) >> shift) & 15;
}

// Eight scales and eight minimums in 12 bytes: bytes 0-3 and 4-7 hold the first four of each in their
// lower six bits and the top two bits of the last four above them; bytes 8-11 hold the last four's nibbles.
function readSixBitScales(bytes: Uint8Array, at: number, group: number, to: Group): void {
  const own = byteAt(bytes, at + 4 + group);
  const next = byteAt(bytes, at + 8 + group);
  const scale = group < 4 ? own & 63 : (next & 15) | ((byteAt(bytes, at + group) >> 6) << 4);
  const minimum = group < 4 ? next & 63 : (next >> 4) | ((own >> 6) << 4);
  setScale(to, halfAt(bytes, at) * scale, -halfAt(bytes, at + 2) * minimum);
}

export const readQ6_K: GroupReader = (bytes, at, group, to) => {
  const d = halfAt(bytes, at + 208);
  for (let half = 0; half < 2; half++) {
    to.scales[half] = d * signedByteAt(bytes, at + 192 + 2 * group + half);
    to.minimums[half] = 0;
  }
  const part = group & 3;
  const nibbles = at + (group >> 2) * 64 + (part & 1) * 32;
  const uppers = at + 128 + (group >> 2) * 32;
  for (let i = 0; i < 32; i++) {
    const low = (byteAt(bytes, nibbles + i) >> ((part >> 1) * 4)) & 15;
    const high = (byteAt(bytes, uppers + i) >> (part * 2)) & 3;
    to.values[i] = (low | (high << 4)) - 32;
  }
};
