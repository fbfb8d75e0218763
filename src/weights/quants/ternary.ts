// GGUF's types of three values, -1, 0 and 1: blocks of 256 with one scale.
//   TQ1_0 { five to a byte [48], four to a byte [4]; half d }     d * (q - 1)
//   TQ2_0 { two bits each [64]; half d }                          d * (q - 1)
// A byte of TQ1_0 is a fraction of 256 in base 3: times 3^n, what overflows of three times the rest is digit n. Digits 0 of 32
// bytes are the first 32 values, digits 1 the next; then those of 16 bytes, then those of 4.

import { halfAt } from './floats.ts';
import { byteAt, type GroupReader, setScale } from './group.ts';

const powersOfThree = [1, 3, 9, 27, 81] as const;

export const readTQ1_0: GroupReader = (bytes, at, group, to) => {
  setScale(to, halfAt(bytes, at + 52), 0);
  for (let i = 0; i < 32; i++) to.values[i] = ternaryDigit(bytes, at, 32 * group + i) - 1;
};

export const readTQ2_0: GroupReader = (bytes, at, group, to) => {
  setScale(to, halfAt(bytes, at + 64), 0);
  const from = at + (group >> 2) * 32;
  for (let i = 0; i < 32; i++) to.values[i] = ((byteAt(bytes, from + i) >> (2 * (group & 3))) & 3) - 1;
};

function ternaryDigit(bytes: Uint8Array, at: number, index: number): number {
  if (index < 160) return digitOf(byteAt(bytes, at + (index & 31)), index >> 5);
  if (index < 240) return digitOf(byteAt(bytes, at + 32 + (index & 15)), (index - 160) >> 4);
  return digitOf(byteAt(bytes, at + 48 + (index & 3)), (index - 240) >> 2);
}

function digitOf(byte: number, place: number): number {
  return (((byte * (powersOfThree[place] as number)) & 255) * 3) >> 8;
}
