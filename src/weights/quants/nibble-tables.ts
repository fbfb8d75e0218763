// Four-bit types whose nibbles index a table of uneven steps, which are floats of four bits in MXFP4 and NVFP4.
//   IQ4_NL { half d; nibbles q[16] }                                       d * table[q], 32 values
//   IQ4_XS { half d; uint16 scales_h; scales_l[4]; nibbles q[128] }        d * (scale - 32) * table[q], 256
//   MXFP4  { uint8 e; nibbles q[16] }                                      2^(e - 127) * float4[q]
//   NVFP4  { uint8 s[2]; nibbles q[16] }                                   float8[s] * float4[q], a scale for 16

import { f8Values, halfAt } from './floats.ts';
import { byteAt, type Group, type GroupReader, setScale } from './group.ts';

export const iq4Steps = Int8Array.from([
  -127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113,
]);

export const readIQ4_NL: GroupReader = (bytes, at, _group, to) => {
  setScale(to, halfAt(bytes, at), 0);
  readSteps(bytes, at + 2, iq4Steps, to);
};

export const readIQ4_XS: GroupReader = (bytes, at, group, to) => {
  const upperScales = byteAt(bytes, at + 2) | (byteAt(bytes, at + 3) << 8);
  const low = (byteAt(bytes, at + 4 + (group >> 1)) >> ((group & 1) * 4)) & 15;
  const high = (upperScales >> (2 * group)) & 3;
  setScale(to, halfAt(bytes, at) * ((low | (high << 4)) - 32), 0);
  readSteps(bytes, at + 8 + group * 16, iq4Steps, to);
};

/** Values of a nibble (sign, two bits of exponent, one of mantissa), doubled to be integers. */
export const fp4Steps = Int8Array.of(0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12);

const NOT_A_NUMBER = 255;

export const readMXFP4: GroupReader = (bytes, at, _group, to) => {
  const exponent = byteAt(bytes, at);
  setScale(to, exponent === NOT_A_NUMBER ? Number.NaN : 2 ** (exponent - 128), 0);
  readSteps(bytes, at + 1, fp4Steps, to);
};

export const readNVFP4: GroupReader = (bytes, at, _group, to) => {
  setScale(to, 0, 0);
  for (const half of [0, 1]) to.scales[half] = (f8Values[byteAt(bytes, at + half)] as number) / 2;
  readSteps(bytes, at + 2, fp4Steps, to);
};

function readSteps(bytes: Uint8Array, at: number, steps: Int8Array, { values }: Group): void {
  for (let i = 0; i < 16; i++) {
    const pair = byteAt(bytes, at + i);
    values[i] = steps[pair & 15] as number;
    values[16 + i] = steps[pair >> 4] as number;
  }
}
