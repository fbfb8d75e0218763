// GGUF's first family: 32 values with one scale, and in the _1 types one minimum.
//   Q8_0 { half d; int8 q[32] }                    d * q
//   Q4_0 { half d; nibbles q[16] }                 d * (q - 8)
//   Q4_1 { half d; half m; nibbles q[16] }         d * q + m
//   Q5_0, Q5_1: as Q4 with the fifth bits in a uint32 before the nibbles; Q5_0 is d * (q - 16)

import { halfAt } from './floats.ts';
import { byteAt, type GroupReader, setScale, signedByteAt } from './group.ts';

export const readQ8_0: GroupReader = (bytes, at, _group, to) => {
  setScale(to, halfAt(bytes, at), 0);
  for (let i = 0; i < 32; i++) to.values[i] = signedByteAt(bytes, at + 2 + i);
};

export const readQ4_0: GroupReader = (bytes, at, _group, to) => {
  setScale(to, halfAt(bytes, at), 0);
  readNibbles(bytes, at + 2, to.values, -8);
};

export const readQ4_1: GroupReader = (bytes, at, _group, to) => {
  setScale(to, halfAt(bytes, at), halfAt(bytes, at + 2));
  readNibbles(bytes, at + 4, to.values, 0);
};

export const readQ5_0: GroupReader = (bytes, at, _group, to) => {
  setScale(to, halfAt(bytes, at), 0);
  readFiveBits(bytes, at + 2, to.values, -16);
};

export const readQ5_1: GroupReader = (bytes, at, _group, to) => {
  setScale(to, halfAt(bytes, at), halfAt(bytes, at + 2));
  readFiveBits(bytes, at + 4, to.values, 0);
};

/** Low nibbles are the first 16 values, high nibbles the last 16. */
function readNibbles(bytes: Uint8Array, at: number, values: Int16Array, least: number): void {
  for (let i = 0; i < 16; i++) {
    const pair = byteAt(bytes, at + i);
    values[i] = (pair & 15) + least;
    values[16 + i] = (pair >> 4) + least;
  }
}

function readFiveBits(bytes: Uint8Array, at: number, values: Int16Array, least: number): void {
  for (let i = 0; i < 16; i++) {
    const pair = byteAt(bytes, at + 4 + i);
    const lowFifth = (byteAt(bytes, at + (i >> 3)) >> (i & 7)) & 1;
    const highFifth = (byteAt(bytes, at + 2 + (i >> 3)) >> (i & 7)) & 1;
    values[i] = ((pair & 15) | (lowFifth << 4)) + least;
    values[16 + i] = ((pair >> 4) | (highFifth << 4)) + least;
  }
}
