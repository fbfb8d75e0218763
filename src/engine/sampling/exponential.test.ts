import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { exponential, LaneSum, naturalLogarithm } from './exponential.ts';

const ULP = 2 ** -52;

describe('exponential', () => {
  it('is within three units in the last place of the platform', () => {
    fc.assert(
      fc.property(fc.double({ min: -699, max: 0, noNaN: true }), (x) => {
        expect(Math.abs(exponential(x) / Math.exp(x) - 1)).toBeLessThan(3 * ULP);
      }),
      { numRuns: 20_000, seed: 1 },
    );
  });

  it('is exact at its ends', () => {
    expect(exponential(0)).toBe(1);
    expect(exponential(-0)).toBe(1);
    expect(exponential(-Infinity)).toBe(0);
    expect(exponential(-1e300)).toBe(0);
    expect(exponential(-702)).toBe(0);
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
  });
});

describe('LaneSum', () => {
  it('adds values by lanes of 64 folded in halves', () => {
    const values = Array.from({ length: 200 }, (_, index) => 1 / (index + 1));
    const lanes = Array.from({ length: 64 }, (_, lane) =>
      values.filter((_, index) => index % 64 === lane).reduce((sum, value) => sum + value, 0),
    );
    const fold = (list: readonly number[]): number =>
      list.length === 1
        ? (list[0] as number)
        : fold(
            list
              .slice(0, list.length / 2)
              .map((value, lane) => value + (list[lane + list.length / 2] as number)),
          );
    const sum = new LaneSum();
    for (const [index, value] of values.entries()) sum.add(index, value);
    expect(sum.total()).toBe(fold(lanes));
  });
});
