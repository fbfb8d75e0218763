// GGUF's types of about three bits: eight values at a time are two entries of a grid with eight signs. Blocks of 256 values.
//   IQ3_XXS { half d; entries [64]; 8 groups of uint32 signs of 7 bits [4], scale of 4 bits }     d * (2 * scale + 1) / 4 * value
//   IQ3_S   { half d; entries' low bytes [64]; their ninth bits [64]; signs [32]; scales of 4 bits [8] }
//                                                                                                  d * (2 * scale + 1) * value

import { evenSigns, setSigned, signedSteps } from './grid-entries.ts';
import { byteAt, type GroupReader, setScale, wordAt } from './group.ts';
import { halfAt } from './half.ts';
import { iq3sGrid, iq3sSteps, iq3xxsGrid, iq3xxsSteps } from './iq-grids.ts';

export const iq3xxsCodebook = signedSteps(iq3xxsSteps);
export const iq3sCodebook = signedSteps(iq3sSteps);

export const readIQ3_XXS: GroupReader = (bytes, at, group, to) => {
  const word = wordAt(bytes, at + 66 + 4 * group);
  setScale(to, (halfAt(bytes, at) * (2 * (word >>> 28) + 1)) / 4, 0);
  for (let i = 0; i < 4; i++) {
    const place = at + 2 + 8 * group + 2 * i;
    const entries = [byteAt(bytes, place), byteAt(bytes, place + 1)];
    setSigned(to.values, 8 * i, iq3xxsGrid, entries, evenSigns((word >>> (7 * i)) & 127));
  }
};

export const readIQ3_S: GroupReader = (bytes, at, group, to) => {
  const scale = (byteAt(bytes, at + 106 + (group >> 1)) >> (4 * (group & 1))) & 15;
  setScale(to, halfAt(bytes, at) * (2 * scale + 1), 0);
  const ninths = byteAt(bytes, at + 66 + group);
  const entry = (index: number) => byteAt(bytes, at + 2 + 8 * group + index) | (((ninths >> index) & 1) << 8);
  for (let i = 0; i < 4; i++) {
    const signs = byteAt(bytes, at + 74 + 4 * group + i);
    setSigned(to.values, 8 * i, iq3sGrid, [entry(2 * i), entry(2 * i + 1)], signs);
  }
};
