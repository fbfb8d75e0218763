// GGUF's IQ types of one to three bits: blocks of 256 values, of which eight at a time are entries of a grid with signs.

import { halfAt, halfToNumber } from './floats.ts';
import { byteAt, type Group, type GroupReader, setScale, shortAt, wordAt } from './group.ts';
import {
  iq1Grid,
  iq1Steps,
  iq2Steps,
  iq2sGrid,
  iq2xsGrid,
  iq2xxsGrid,
  iq3sGrid,
  iq3sSteps,
  iq3xxsGrid,
  iq3xxsSteps,
} from './iq-grids.ts';

/** Adds the eighth sign, which makes the number of minus signs even. */
function evenSigns(bits: number): number {
  const folded = bits ^ (bits >> 4);
  const parity = (0x6996 >> (folded & 15)) & 1;
  return bits | (parity << 7);
}

/** Eight values of one or two entries, with a minus where a bit of `signs` is set. */
function setSigned(
  values: Int16Array,
  at: number,
  grid: Int8Array,
  entries: readonly number[],
  signs: number,
): void {
  const size = 8 / entries.length;
  for (let i = 0; i < 8; i++) {
    const entry = entries[Math.floor(i / size)] as number;
    const value = grid[entry * size + (i % size)] as number;
    values[at + i] = (signs >> i) & 1 ? -value : value;
  }
}

function signedSteps(steps: readonly number[]): Int8Array<ArrayBuffer> {
  const both = new Int8Array(16);
  both.set(steps);
  both.set(
    steps.map((step) => -step),
    8,
  );
  return both;
}

// Eight values of -1, 0 and 1 are an entry, moved up or down by an eighth: d * (2 * scale + 1) * (grid value ± 1/8).
//   IQ1_S { half d; entries' low bytes [32]; uint16 [8], entries' upper three bits [4], scale of 3 bits, whether down }
//   IQ1_M { entries' low bytes [32]; their upper three bits and whether down [32];
//           uint16 [4], scales of 3 bits [4] and four bits of the half d }

/** In units of an eighth, so that values are integers: those moved up, then those moved down. */
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

// An entry with eight signs: d * (2 * scale + 1) / 8 * grid value.
//   IQ2_XXS { half d; 8 groups { uint8 entries[4]; uint32 signs of 7 bits [4], scale of 4 bits } }
//   IQ2_XS  { half d; uint16 [32], entries of 9 bits and signs of 7; scales of 4 bits [16] }
//   IQ2_S   { half d; entries' low bytes [32]; signs [32]; entries' upper two bits [32]; scales of 4 bits [16] }

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

function setHalves({ scales, minimums }: Group, d: number, packed: number): void {
  scales[0] = scaleOf(d, packed & 15);
  scales[1] = scaleOf(d, packed >> 4);
  minimums.fill(0);
}

// Two entries with eight signs.
//   IQ3_XXS { half d; entries [64]; 8 groups of uint32 signs of 7 bits [4], scale of 4 bits }     d * (2 * scale + 1) / 4 * value
//   IQ3_S   { half d; entries' low bytes [64]; their ninth bits [64]; signs [32]; scales of 4 bits [8] }
//                                                                                                  d * (2 * scale + 1) * value

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
