import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { naturalLogarithm, roundToWhole, scaleLogit, unitBitsFor, weightOf } from './exponential.ts';

const ULP = 2 ** -52;
const UNIT_BITS = 36;

describe('weightOf', () => {
  it('is a power of two, to the accuracy of float32 or of one unit', () => {
    fc.assert(
      fc.property(fc.double({ min: -40, max: 0, noNaN: true }), (x) => {
        const scaled = Math.fround(x);
        const exact = 2 ** (scaled + UNIT_BITS);
        expect(Math.abs(weightOf(scaled, UNIT_BITS) - exact)).toBeLessThanOrEqual(0.5 + 2.1e-7 * exact);
      }),
      { numRuns: 20_000, seed: 1 },
    );
  });

  it('gives whole numbers that a float32 holds, and is never more for less', () => {
    let last = 2 ** UNIT_BITS;
    for (let scaled = 0; scaled > -39; scaled = Math.fround(scaled - 1 / 512)) {
      const weight = weightOf(scaled, UNIT_BITS);
      expect(Number.isInteger(weight)).toBe(true);
      expect(Math.fround(weight)).toBe(weight);
      expect(weight).toBeLessThanOrEqual(last);
      last = weight;
    }
  });

  it('is exact at its ends', () => {
    expect(weightOf(0, UNIT_BITS)).toBe(2 ** UNIT_BITS);
    expect(weightOf(-0, UNIT_BITS)).toBe(2 ** UNIT_BITS);
    expect(weightOf(-UNIT_BITS, UNIT_BITS)).toBe(1);
    expect(weightOf(-UNIT_BITS - 1, UNIT_BITS)).toBe(0);
    expect(weightOf(-1e30, UNIT_BITS)).toBe(0);
    expect(weightOf(-Infinity, UNIT_BITS)).toBe(0);
  });
});

describe('unitBitsFor', () => {
  it('lets the weights of a whole vocabulary be summed exactly, in units of at most 2^-34', () => {
    for (const vocabSize of [1, 2, 3, 1000, 128_256, 131_072, 131_073, 151_936, 262_144, 262_208, 500_000]) {
      const bits = unitBitsFor(vocabSize);
      expect(vocabSize * 2 ** bits).toBeLessThanOrEqual(2 ** 53);
      expect(bits).toBeGreaterThanOrEqual(34);
    }
  });
});

describe('scaleLogit', () => {
  it('is 0 for the highest and never positive, whatever the size of the numbers', () => {
    expect(scaleLogit(3, 3, 0.7)).toBe(0);
    expect(scaleLogit(-3e38, 3e38, 1)).toBe(-Infinity);
    expect(scaleLogit(-Infinity, 0, 1e-5)).toBe(-Infinity);
    expect(scaleLogit(0, Math.LN2, 1)).toBeCloseTo(-1, 6);
    expect(scaleLogit(0, Math.LN2, 0.25)).toBeCloseTo(-4, 5);
  });
});

describe('roundToWhole', () => {
  it('rounds to the nearest, of two to the even one', () => {
    expect([0.5, 1.5, 2.5, -0.6, -1.5, 3.2, 2 ** 40 + 0.5].map(roundToWhole)).toEqual([
      0,
      2,
      2,
      -1,
      -2,
      3,
      2 ** 40,
    ]);
  });
});

describe('naturalLogarithm', () => {
  it('is within three units in the last place of the platform', () => {
    fc.assert(
      fc.property(fc.double({ min: 1, max: 1e7, noNaN: true }), (x) => {
        expect(Math.abs(naturalLogarithm(x) - Math.log(x))).toBeLessThanOrEqual(3 * ULP * Math.log(x));
      }),
      { numRuns: 20_000, seed: 1 },
    );
    expect(naturalLogarithm(1)).toBe(0);
    expect(naturalLogarithm(2 ** 64)).toBeCloseTo(64 * Math.LN2, 12);
  });
});
