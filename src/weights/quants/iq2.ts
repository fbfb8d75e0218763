// GGUF's types of about two bits: eight values at a time are an entry of a grid with eight signs. Blocks of 256 values,
// each d * (2 * scale + 1) / 8 * grid value.
//   IQ2_XXS { half d; 8 groups { uint8 entries[4]; uint32 signs of 7 bits [4], scale of 4 bits } }
//   IQ2_XS  { half d; uint16 [32], entries of 9 bits and signs of 7; scales of 4 bits [16] }
//   IQ2_S   { half d; entries' low bytes [32]; signs [32]; entries' upper two bits [32]; scales of 4 bits [16] }

import { evenSigns, setSigned, signedSteps } from './grid-entries.ts';
import { byteAt, type Group, type GroupReader, setScale, shortAt, wordAt } from './group.ts';
import { halfAt } from './half.ts';
import { iq2Steps, iq2sGrid, iq2xsGrid, iq2xxsGrid } from './iq-grids.ts';

export const iq2Codebook = signedSteps(iq2Steps);

export const readIQ2_XXS: GroupReader = (bytes, at, group, to) => {
  const place = at + 2 + 8 * group;
  const word = wordAt(bytes, place + 4);
  setScale(to, scaleOf(halfAt(bytes, at), word >>> 28), 0);
  for (let i = 0; i < 4; i++) {
    setSigned(to.values, 8 * i, iq2xxsGrid, [byteAt(bytes, place + i)], evenSigns((word >>> (7 * i)) & 127));
  }
};

export const readIQ2_XS: GroupReader = (bytes, at, group, to) => {
  setHalves(to, halfAt(bytes, at), byteAt(bytes, at + 66 + group));
  for (let i = 0; i < 4; i++) {
    const packed = shortAt(bytes, at + 2 + 8 * group + 2 * i);
    setSigned(to.values, 8 * i, iq2xsGrid, [packed & 511], evenSigns(packed >> 9));
  }
};

export const readIQ2_S: GroupReader = (bytes, at, group, to) => {
  setHalves(to, halfAt(bytes, at), byteAt(bytes, at + 74 + group));
  const uppers = byteAt(bytes, at + 66 + group);
  for (let i = 0; i < 4; i++) {
    const entry = byteAt(bytes, at + 2 + 4 * group + i) | (((uppers >> (2 * i)) & 3) << 8);
    setSigned(to.values, 8 * i, iq2sGrid, [entry], byteAt(bytes, at + 34 + 4 * group + i));
  }
};

function scaleOf(d: number, scale: number): number {
  return (d * (2 * scale + 1)) / 8;
}

/** The scale of the first half lies in the low bits. */
function setHalves({ scales, minimums }: Group, d: number, packed: number): void {
  scales[0] = scaleOf(d, packed & 15);
  scales[1] = scaleOf(d, packed >> 4);
  minimums.fill(0);
}
