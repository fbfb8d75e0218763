// e^x, ln x and long sums from additions, multiplications and divisions of doubles alone. The native twin
// (native/exponential.h, native/sampler-passes.cc) does the same operations in the same order, so both give
// the same bits on every machine; Math.exp and libm promise nothing of the kind.

// ln 2 in two parts: the upper has enough trailing zeros that its product with an exponent is exact.
const LN2_UPPER = 0.6931471803691238;
const LN2_LOWER = 1.9082149292705877e-10;
// Adding and subtracting 1.5 x 2^52 rounds a double to the nearest whole number.
const ROUNDER = 6755399441055744;

/** Below this power of two e^x counts as 0: every result is 0 or a normal number. */
const LOWEST_POWER = -1010;

// Taylor's coefficients 1/12! … 1/0!: on |x| <= ln 2 / 2 the rest is below 2e-16.
const COEFFICIENTS: readonly number[] = [
  1 / 479001600,
  1 / 39916800,
  1 / 3628800,
  1 / 362880,
  1 / 40320,
  1 / 5040,
  1 / 720,
  1 / 120,
  1 / 24,
  1 / 6,
  1 / 2,
  1,
  1,
];

/** HALVES[n] is 2^-n. */
const HALVES = Float64Array.from({ length: 1 - LOWEST_POWER }, (_, n) => 2 ** -n);

/** e^x for x <= 0, to about one unit in the last place. */
export function exponential(x: number): number {
  const n = x * Math.LOG2E + ROUNDER - ROUNDER;
  if (n < LOWEST_POWER) return 0;
  const rest = x - n * LN2_UPPER - n * LN2_LOWER;
  let power = 0;
  for (const coefficient of COEFFICIENTS) power = power * rest + coefficient;
  return power * (HALVES[-n] as number);
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

const LANES = 64;

/** A sum in one defined order that vector code can follow: value i joins lane i mod 64; lanes fold in halves. */
export class LaneSum {
  readonly #lanes = new Float64Array(LANES);

  add(index: number, value: number): void {
    const lane = index % LANES;
    this.#lanes[lane] = (this.#lanes[lane] as number) + value;
  }

  total(): number {
    const lanes = this.#lanes.slice();
    for (let half = LANES / 2; half >= 1; half /= 2) {
      for (let lane = 0; lane < half; lane++) {
        lanes[lane] = (lanes[lane] as number) + (lanes[lane + half] as number);
      }
    }
    return lanes[0] as number;
  }
}
