// GGUF's four-bit types whose nibbles index a fixed table of uneven steps.
//   IQ4_NL { half d; nibbles q[16] }                                       d * table[q], 32 values
//   IQ4_XS { half d; uint16 scales_h; scales_l[4]; nibbles q[128] }        d * (scale - 32) * table[q], 256

import { type BlockDecoder, byteAt } from './block-decoder.ts';
import { halfAt } from './half.ts';

const steps = Int8Array.of(-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113);

export const decodeIQ4_NL: BlockDecoder = (bytes, at, out, to) => {
  decodeSteps(bytes, at + 2, out, to, halfAt(bytes, at));
};

export const decodeIQ4_XS: BlockDecoder = (bytes, at, out, to) => {
  const d = halfAt(bytes, at);
  const upperScales = byteAt(bytes, at + 2) | (byteAt(bytes, at + 3) << 8);
  for (let group = 0; group < 8; group++) {
    const low = (byteAt(bytes, at + 4 + (group >> 1)) >> ((group & 1) * 4)) & 15;
    const high = (upperScales >> (2 * group)) & 3;
    const scale = d * ((low | (high << 4)) - 32);
    decodeSteps(bytes, at + 8 + group * 16, out, to + group * 32, scale);
  }
};

function decodeSteps(bytes: Uint8Array, at: number, out: Float32Array, to: number, scale: number): void {
  for (let i = 0; i < 16; i++) {
    const pair = byteAt(bytes, at + i);
    out[to + i] = scale * (steps[pair & 15] as number);
    out[to + 16 + i] = scale * (steps[pair >> 4] as number);
  }
}
