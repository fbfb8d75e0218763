// Floats of four bits, with a power of two for every 32 of them, or a float of eight bits for every 16.
//   MXFP4 { uint8 e; nibbles q[16] }        2^(e - 127) * float4[q]
//   NVFP4 { uint8 s[2]; nibbles q[16] }     float8[s] * float4[q]

import { f8Values } from './f8.ts';
import { byteAt, type Group, type GroupReader, setScale } from './group.ts';

/** What a nibble stands for, doubled so that it is whole: sign, two bits of exponent, one of mantissa. */
export const fp4Steps = Int8Array.of(0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12);

const NOT_A_NUMBER = 255;

export const readMXFP4: GroupReader = (bytes, at, _group, to) => {
  const exponent = byteAt(bytes, at);
  setScale(to, exponent === NOT_A_NUMBER ? Number.NaN : 2 ** (exponent - 128), 0);
  readSteps(bytes, at + 1, to);
};

export const readNVFP4: GroupReader = (bytes, at, _group, to) => {
  setScale(to, 0, 0);
  for (const half of [0, 1]) to.scales[half] = (f8Values[byteAt(bytes, at + half)] as number) / 2;
  readSteps(bytes, at + 2, to);
};

function readSteps(bytes: Uint8Array, at: number, { values }: Group): void {
  for (let i = 0; i < 16; i++) {
    const pair = byteAt(bytes, at + i);
    values[i] = fp4Steps[pair & 15] as number;
    values[16 + i] = fp4Steps[pair >> 4] as number;
  }
}
