// Token weights and ln x from additions, multiplications and divisions alone. native/sampling/exponential.h does the
// same operations in the same order, so both give the same bits on every machine; Math.exp and libm promise no such
// thing. Weights are integers, so their sums are exact in any order.

// Adding and subtracting these rounds a float32, or a double, to the nearest whole number.
const FLOAT_ROUNDER = 1.5 * 2 ** 23;
const DOUBLE_ROUNDER = 1.5 * 2 ** 52;

// 2^x on |x| <= 1/2 to 2e-7: a minimax polynomial in float32, but for the last term, which must be 1.
export const POWER_COEFFICIENTS: readonly number[] = [
  0.001326472731307149, 0.009671512991189957, 0.05550733581185341, 0.24022242426872253, 0.6931470036506653, 1,
];

const [FIFTH, FOURTH, THIRD, SECOND, FIRST] = POWER_COEFFICIENTS as readonly [
  number,
  number,
  number,
  number,
  number,
];

const POWERS_OF_TWO: readonly number[] = Array.from({ length: 42 }, (_, place) => 2 ** (place - 1));

// ln 2 in two parts: the upper has enough trailing zeros that its product with an exponent is exact.
const LN2_UPPER = 0.6931471803691238;
const LN2_LOWER = 1.9082149292705877e-10;

/**
 * The most likely token of a row weighs 2^unitBits. The weights of a whole vocabulary then sum up to at most
 * 2^53, which a double holds exactly; 128 K tokens have units of 2^-36.
 */
export function unitBitsFor(vocabSize: number): number {
  return Math.min(40, 21 + Math.clz32(vocabSize - 1));
}

export function slopeFor(temperature: number): number {
  return Math.fround(Math.LOG2E / temperature);
}

/** (logit - highest) x log2(e) / temperature, in float32. */
export function scaleLogit(logit: number, highest: number, temperature: number): number {
  return Math.fround(Math.fround(logit - highest) * slopeFor(temperature));
}

/** 2^scaled in units, for scaled <= 0: an integer that float32 holds exactly. */
export function weightOf(scaled: number, unitBits: number): number {
  if (scaled < -unitBits - 1) return 0;
  const exponent = Math.fround(scaled + FLOAT_ROUNDER) - FLOAT_ROUNDER;
  const rest = scaled - exponent;
  // Horner's rule, written out: whole vocabularies are weighed.
  let power = FIFTH;
  power = Math.fround(Math.fround(power * rest) + FOURTH);
  power = Math.fround(Math.fround(power * rest) + THIRD);
  power = Math.fround(Math.fround(power * rest) + SECOND);
  power = Math.fround(Math.fround(power * rest) + FIRST);
  power = Math.fround(Math.fround(power * rest) + 1);
  return roundToWhole(power * (POWERS_OF_TWO[exponent + unitBits + 1] as number));
}

export interface WeightSums {
  readonly total: number;
  /** The sum of weight x scaled, each rounded. */
  readonly moment: number;
  /** Tokens that are not excluded. */
  readonly count: number;
}

/** Of a whole row. */
export function sumWeights(logits: Float32Array, highest: number, temperature: number): WeightSums {
  const unitBits = unitBitsFor(logits.length);
  const slope = slopeFor(temperature);
  let total = 0;
  let moment = 0;
  let count = 0;
  for (let token = 0; token < logits.length; token++) {
    const logit = logits[token] as number;
    if (logit === -Infinity) continue;
    count++;
    const scaled = Math.fround(Math.fround(logit - highest) * slope);
    if (scaled < -unitBits - 1) continue;
    const weight = weightOf(scaled, unitBits);
    total += weight;
    moment += roundToWhole(weight * scaled);
  }
  return { total, moment, count };
}

export function roundToWhole(value: number): number {
  return value + DOUBLE_ROUNDER - DOUBLE_ROUNDER;
}

/** ln x for x >= 1, to about one unit in the last place. */
export function naturalLogarithm(x: number): number {
  let mantissa = x;
  let exponent = 0;
  while (mantissa > Math.SQRT2) {
    mantissa *= 0.5;
    exponent++;
  }
  // ln m = 2 (s + s^3 / 3 + s^5 / 5 + …) with s = (m - 1) / (m + 1), at most 0.172.
  const s = (mantissa - 1) / (mantissa + 1);
  const square = s * s;
  let series = 0;
  for (let odd = 23; odd >= 3; odd -= 2) series = (series + 1 / odd) * square;
  return exponent * LN2_UPPER + (2 * s + (2 * s * series + exponent * LN2_LOWER));
}

/** log2 x for x above 0. */
export function binaryLogarithm(x: number): number {
  return (x < 1 ? -naturalLogarithm(1 / x) : naturalLogarithm(x)) * Math.LOG2E;
}

/** 2^x, to a few units in the last place; 0 far below, and infinity far above. */
export function powerOfTwo(x: number): number {
  if (!(x > -1070)) return 0;
  if (x >= 1024) return Infinity;
  let whole = Math.floor(x);
  const rest = (x - whole) * Math.LN2;
  let power = 1;
  for (let term = 20; term >= 1; term--) power = 1 + (power * rest) / term;
  for (; whole > 0; whole--) power *= 2;
  for (; whole < 0; whole++) power *= 0.5;
  return power;
}
