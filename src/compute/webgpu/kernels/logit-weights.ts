// Logits as bits, their order, and their weights: those of src/sampling/exponential.ts bit for bit, by the same operations,
// each rounded. WGSL promises nothing where numbers overflow, underflow or are none: a row with such a logit is marked, and
// the processor samples it. Compilers may fuse a product and a sum, or drop what is added only to be subtracted again;
// `opaque` prevents it, by zero bits that they cannot know.

import { POWER_COEFFICIENTS } from '../../../sampling/exponential.ts';

/** 1.5 x 2^23: added and taken off, it rounds to a whole number, which the lowest bits then hold. */
const ROUNDER = '12582912.0';
const ROUNDER_BITS = '0x4b400000u';

const [FIRST, ...OTHERS] = POWER_COEFFICIENTS;
const steps = OTHERS.map((coefficient) => `power = opaque(power * rest, zero) + ${coefficient};`);

/**
 * Declares `opaque`, `scaleLogit`, `leastScaled`, below which nothing weighs anything, and `weightOf`: 2^scaled in units,
 * low and high word, for scaled from there to 0.
 */
export const weights = /* wgsl */ `
fn opaque(value: f32, zero: u32) -> f32 { return bitcast<f32>(bitcast<u32>(value) ^ zero); }
fn scaleLogit(logit: f32, highest: f32, slope: f32, zero: u32) -> f32 {
  return opaque((logit - highest) * slope, zero);
}
fn leastScaled(unitBits: i32) -> f32 { return f32(-unitBits - 1); }
fn weightOf(scaled: f32, unitBits: i32, zero: u32) -> vec2<u32> {
  let shifted = opaque(scaled + ${ROUNDER}, zero);
  let rest = scaled - (shifted - ${ROUNDER});
  var power = f32(${FIRST});
  ${steps.join('\n  ')}
  let bits = bitcast<u32>(power);
  let digits = (bits & 0x7fffffu) | 0x800000u;
  // The weight is digits x 2^shift.
  let shift = i32(bits >> 23u) - 150 + i32(bitcast<u32>(shifted) - ${ROUNDER_BITS}) + unitBits;
  if (shift >= 0) { return vec2<u32>(digits << u32(shift), (digits >> 1u) >> u32(31 - shift)); }
  // To the nearest whole number, of two the even one.
  let lost = u32(-shift);
  let isUneven = (digits >> lost) & 1u;
  return vec2<u32>((digits + (1u << (lost - 1u)) - 1u + isUneven) >> lost, 0u);
}
`;

/**
 * Declares `isPlain`, the same as in plan-sampling.ts; `keyOf`, which is larger for larger logits and the same for both zeros;
 * and its inverse `fromKey`. Minus infinity, which excludes a token, has the key `nothing`; all plain logits have larger ones.
 */
export const plainLogits = /* wgsl */ `
const excluded = 0xff800000u;
const nothing = 0x007fffffu;
fn isPlain(bits: u32) -> bool {
  let size = bits & 0x7fffffffu;
  return size == 0u || size - 0x1f800000u < 0x71800000u - 0x1f800000u;
}
fn keyOf(bits: u32) -> u32 {
  return select(select(~bits, bits | 0x80000000u, bits < 0x80000000u), 0x80000000u, bits == 0x80000000u);
}
fn fromKey(key: u32) -> u32 { return select(~key, key & 0x7fffffffu, key >= 0x80000000u); }
`;
