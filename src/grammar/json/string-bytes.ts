// Characters of JSON strings: plain where possible, and with every escape of JSON. A pair of surrogates is one
// character; half a pair is none.

import type { CharacterRange } from '../expression.ts';
import { type CodePoints, codePoints, everyCodePoint, intersect, without } from '../regular/code-points.ts';

export interface HexWriter {
  add(): number;
  /** A state that leads to `to`: the same for the same key, so that equal rests of characters are written once. */
  shared(key: string, to: number, write: (state: number) => void): number;
  byte(from: number, first: number, last: number, to: number): void;
  characters(set: CodePoints, from: number, to: number): void;
}

const shortEscapes: readonly (readonly [codePoint: number, letter: number])[] = [
  [0x22, 0x22],
  [0x5c, 0x5c],
  [0x2f, 0x2f],
  [0x08, 0x62],
  [0x0c, 0x66],
  [0x0a, 0x6e],
  [0x0d, 0x72],
  [0x09, 0x74],
];
const mustBeEscaped = codePoints([
  [0, 0x1f],
  [0x22, 0x22],
  [0x5c, 0x5c],
]);
const plain = without(everyCodePoint, mustBeEscaped);
/** Programs do not write these as `\uXXXX`; omitting that keeps automata small. */
const neverInHex = codePoints([
  [0x20, 0x21],
  [0x23, 0x5b],
  [0x5d, 0x7e],
]);

/** Letters, digits and most signs have one spelling. */
function isPlainAlways([first, last]: CharacterRange): boolean {
  return (
    (first >= 0x5d && last <= 0x7e) ||
    (first >= 0x30 && last <= 0x5b) ||
    (first >= 0x23 && last <= 0x2e) ||
    (first === 0x20 && last <= 0x21)
  );
}

const basicPlane = codePoints([[0, 0xffff]]);
const beyondBasicPlane = codePoints([[0x10000, 0x10ffff]]);

export function stringCharacter(writer: HexWriter, from: number, to: number): void {
  writeCharacter(writer, everyCodePoint, everyCodePoint, from, to);
}

/** One character of a set, in any spelling that programs use. */
export function jsonCharacter(writer: HexWriter, set: CodePoints, from: number, to: number): void {
  if (set.every(isPlainAlways)) {
    writer.characters(set, from, to);
    return;
  }
  writeCharacter(writer, set, without(set, neverInHex), from, to);
}

function writeCharacter(
  writer: HexWriter,
  set: CodePoints,
  inHex: CodePoints,
  from: number,
  to: number,
): void {
  writer.characters(intersect(set, plain), from, to);
  const letters = shortEscapes.filter(([codePoint]) =>
    set.some(([first, last]) => first <= codePoint && codePoint <= last),
  );
  if (letters.length === 0 && inHex.length === 0) return;
  const behind = writer.shared(`escape ${letters.join(';')} ${inHex.join(';')}`, to, (state) => {
    for (const [, letter] of letters) writer.byte(state, letter, letter, to);
    if (inHex.length === 0) return;
    const hex = writer.add();
    writer.byte(state, 0x75, 0x75, hex);
    for (const [first, last] of intersect(inHex, basicPlane)) writeHex(writer, first, last, 4, hex, to);
    for (const [first, last] of intersect(inHex, beyondBasicPlane)) writePairs(writer, first, last, hex, to);
  });
  writer.byte(from, 0x5c, 0x5c, behind);
}

/** Numbers from first to last in `digits` hexadecimal digits of either case. */
function writeHex(
  writer: HexWriter,
  first: number,
  last: number,
  digits: number,
  from: number,
  to: number,
): void {
  if (digits === 1) {
    hexDigit(writer, first, last, from, to);
    return;
  }
  const unit = 16 ** (digits - 1);
  const [low, high] = [Math.floor(first / unit), Math.floor(last / unit)];
  const part = (digit: number, lastDigit: number, a: number, b: number) => {
    const next = writer.add();
    hexDigit(writer, digit, lastDigit, from, next);
    writeHex(writer, a, b, digits - 1, next, to);
  };
  if (low === high) {
    part(low, low, first % unit, last % unit);
    return;
  }
  const wholeFrom = first % unit === 0 ? low : low + 1;
  const wholeTo = last % unit === unit - 1 ? high : high - 1;
  if (wholeFrom > low) part(low, low, first % unit, unit - 1);
  if (wholeFrom <= wholeTo) part(wholeFrom, wholeTo, 0, unit - 1);
  if (wholeTo < high) part(high, high, 0, last % unit);
}

function hexDigit(writer: HexWriter, first: number, last: number, from: number, to: number): void {
  if (first <= 9) writer.byte(from, 0x30 + first, 0x30 + Math.min(last, 9), to);
  if (last < 10) return;
  const letter = Math.max(first, 10) - 10;
  writer.byte(from, 0x41 + letter, 0x41 + last - 10, to);
  writer.byte(from, 0x61 + letter, 0x61 + last - 10, to);
}

function writePairs(writer: HexWriter, first: number, last: number, from: number, to: number): void {
  const high = (codePoint: number) => 0xd800 + ((codePoint - 0x10000) >>> 10);
  const low = (codePoint: number) => 0xdc00 + (codePoint & 0x3ff);
  const pair = (highFirst: number, highLast: number, lowFirst: number, lowLast: number) => {
    const [between, backslash, hex] = [writer.add(), writer.add(), writer.add()];
    writeHex(writer, highFirst, highLast, 4, from, between);
    writer.byte(between, 0x5c, 0x5c, backslash);
    writer.byte(backslash, 0x75, 0x75, hex);
    writeHex(writer, lowFirst, lowLast, 4, hex, to);
  };
  const [start, end] = [high(first), high(last)];
  if (start === end) {
    pair(start, end, low(first), low(last));
    return;
  }
  const wholeFrom = low(first) === 0xdc00 ? start : start + 1;
  const wholeTo = low(last) === 0xdfff ? end : end - 1;
  if (wholeFrom > start) pair(start, start, low(first), 0xdfff);
  if (wholeFrom <= wholeTo) pair(wholeFrom, wholeTo, 0xdc00, 0xdfff);
  if (wholeTo < end) pair(end, end, 0xdc00, low(last));
}
