// What one group adds to a sum. Every kernel that multiplies codes uses these lines, so that all give the same bits.
//
// Whole numbers become floats without a conversion, which is slow on GPUs: added to the bits of 1.5 * 2^23 they are the
// float's last bits, and subtracting 1.5 * 2^23 leaves them, exactly, up to 2^22. The products of a group stay below
// 2^20.

import type { CodedFormat } from '../format.ts';

/** Declares `dot16`, the sum of sixteen products, and `toFloat`. */
export const groupSums = /* wgsl */ `
const zeroBits = 0x4b400000;
fn dot16(a: vec4<u32>, x: vec4<u32>, start: i32) -> i32 {
  return dot4I8Packed(a.w, x.w) + (dot4I8Packed(a.z, x.z) + (dot4I8Packed(a.y, x.y) + (dot4I8Packed(a.x, x.x) + start)));
}
fn toFloat(bits: i32) -> f32 { return bitcast<f32>(bits) - 12582912.0; }
const ones = vec4<u32>(0x01010101u);
`;

/** What `addGroup` needs of an input row, once for all columns: `x0`, `x1` and `side` are in scope. */
export function prepareInput({ halves, hasMinimum }: CodedFormat): string {
  const lines = ['let inputScale = bitcast<f32>(side.x);'];
  if (hasMinimum && halves) {
    lines.push('let lowSum = dot16(ones, x0, 0);', 'let highSum = bitcast<i32>(side.y) - lowSum;');
    lines.push('let lowTotal = toFloat(zeroBits + lowSum) * inputScale;');
    lines.push('let highTotal = toFloat(zeroBits + highSum) * inputScale;');
  } else if (hasMinimum) {
    lines.push('let total = toFloat(zeroBits + bitcast<i32>(side.y)) * inputScale;');
  }
  return lines.map((line) => `      ${line}`).join('\n');
}

/** Adds the group of `code` and `scale` to the variable `sum`. */
export function addGroup(
  { halves, hasMinimum }: CodedFormat,
  code: string,
  scale: string,
  sum: string,
): string {
  const add = (value: string, factor: string) => `      ${sum} = fma(${value}, ${factor}, ${sum});`;
  if (halves) {
    return [
      add(`toFloat(dot16(${code}.low, x0, zeroBits))`, `${scale}.x * inputScale`),
      add(`toFloat(dot16(${code}.high, x1, zeroBits))`, `${scale}.y * inputScale`),
      ...(hasMinimum ? [add('lowTotal', `${scale}.z`), add('highTotal', `${scale}.w`)] : []),
    ].join('\n');
  }
  return [
    add(`toFloat(dot16(${code}.high, x1, dot16(${code}.low, x0, zeroBits)))`, `${scale}.x * inputScale`),
    ...(hasMinimum ? [add('total', `${scale}.z`)] : []),
  ].join('\n');
}
