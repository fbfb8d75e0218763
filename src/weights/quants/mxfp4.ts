// MXFP4: floats of four bits, with a power of two for every 32 of them.
//   MXFP4 { uint8 e; nibbles q[16] }     2^(e - 127) * float4[q]

import { byteAt, type GroupReader, setScale } from './group.ts';

/** What a nibble stands for, doubled so that it is whole: sign, two bits of exponent, one of mantissa. */
export const fp4Steps = Int8Array.of(0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12);

const NOT_A_NUMBER = 255;

export const readMXFP4: GroupReader = (bytes, at, _group, to) => {
  const exponent = byteAt(bytes, at);
  setScale(to, exponent === NOT_A_NUMBER ? Number.NaN : 2 ** (exponent - 128), 0);
  for (let i = 0; i < 16; i++) {
    const pair = byteAt(bytes, at + 1 + i);
    to.values[i] = fp4Steps[pair & 15] as number;
    to.values[16 + i] = fp4Steps[pair >> 4] as number;
  }
};
