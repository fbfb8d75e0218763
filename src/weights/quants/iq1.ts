// GGUF's types of less than two bits: eight values of -1, 0 and 1 at a time are an entry of a grid, and all of them are moved
// up or down by an eighth. Blocks of 256 values, each d * (2 * scale + 1) * (grid value ± 1/8).
//   IQ1_S { half d; entries' low bytes [32]; uint16 [8], entries' upper three bits [4], scale of 3 bits, whether down }
//   IQ1_M { entries' low bytes [32]; their upper three bits and whether down [32];
//           uint16 [4], scales of 3 bits [4] and four bits of the half d }

import { byteAt, type GroupReader, setScale, shortAt } from './group.ts';
import { halfAt, halfToNumber } from './half.ts';
import { iq1Grid, iq1Steps } from './iq-grids.ts';

/** In units of an eighth, so that values are whole: those moved up, then those moved down. */
export const iq1Codebook = new Int8Array(16);
iq1Codebook.set(iq1Steps.map((step) => 8 * step + 1));
iq1Codebook.set(
  iq1Steps.map((step) => 8 * step - 1),
  8,
);

export const readIQ1_S: GroupReader = (bytes, at, group, to) => {
  const packed = shortAt(bytes, at + 34 + 2 * group);
  setScale(to, (halfAt(bytes, at) * (2 * ((packed >> 12) & 7) + 1)) / 8, 0);
  for (let i = 0; i < 4; i++) {
    const entry = byteAt(bytes, at + 2 + 4 * group + i) | (((packed >> (3 * i)) & 7) << 8);
    setMoved(to.values, 8 * i, entry, packed >> 15);
  }
};

export const readIQ1_M: GroupReader = (bytes, at, group, to) => {
  const d = spreadHalf(bytes, at + 48);
  const packed = shortAt(bytes, at + 48 + 2 * (group >> 1)) >> (6 * (group & 1));
  for (let half = 0; half < 2; half++) {
    to.scales[half] = (d * (2 * ((packed >> (3 * half)) & 7) + 1)) / 8;
    to.minimums[half] = 0;
  }
  for (let i = 0; i < 4; i++) {
    const upper = byteAt(bytes, at + 32 + 2 * group + (i >> 1)) >> (4 * (i & 1));
    const entry = byteAt(bytes, at + 4 * group + i) | ((upper & 7) << 8);
    setMoved(to.values, 8 * i, entry, (upper >> 3) & 1);
  }
};

/** A half whose bits lie in the upper four of four shorts. */
function spreadHalf(bytes: Uint8Array, at: number): number {
  let bits = 0;
  for (let i = 0; i < 4; i++) bits |= (byteAt(bytes, at + 2 * i + 1) >> 4) << (4 * i);
  return halfToNumber(bits);
}

function setMoved(values: Int16Array, at: number, entry: number, isDown: number): void {
  for (let i = 0; i < 8; i++) values[at + i] = 8 * (iq1Grid[8 * entry + i] as number) + (isDown ? -1 : 1);
}
