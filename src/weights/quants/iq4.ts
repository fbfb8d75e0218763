// GGUF's four-bit types whose nibbles index a fixed table of uneven steps.
//   IQ4_NL { half d; nibbles q[16] }                                       d * table[q], 32 values
//   IQ4_XS { half d; uint16 scales_h; scales_l[4]; nibbles q[128] }        d * (scale - 32) * table[q], 256

import { byteAt, type GroupReader, setScale } from './group.ts';
import { halfAt } from './half.ts';

/** What a nibble stands for. */
export const iq4Steps = Int8Array.of(
  -127,
  -104,
  -83,
  -65,
  -49,
  -35,
  -22,
  -10,
  1,
  13,
  25,
  38,
  53,
  69,
  89,
  113,
);

export const readIQ4_NL: GroupReader = (bytes, at, _group, to) => {
  setScale(to, halfAt(bytes, at), 0);
  readSteps(bytes, at + 2, to.values);
};

export const readIQ4_XS: GroupReader = (bytes, at, group, to) => {
  const upperScales = byteAt(bytes, at + 2) | (byteAt(bytes, at + 3) << 8);
  const low = (byteAt(bytes, at + 4 + (group >> 1)) >> ((group & 1) * 4)) & 15;
  const high = (upperScales >> (2 * group)) & 3;
  setScale(to, halfAt(bytes, at) * ((low | (high << 4)) - 32), 0);
  readSteps(bytes, at + 8 + group * 16, to.values);
};

function readSteps(bytes: Uint8Array, at: number, values: Int16Array): void {
  for (let i = 0; i < 16; i++) {
    const pair = byteAt(bytes, at + i);
    values[i] = iq4Steps[pair & 15] as number;
    values[16 + i] = iq4Steps[pair >> 4] as number;
  }
}
