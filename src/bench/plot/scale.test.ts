import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { extentOf, linearScale, logScale, niceStep, scaleWithTicks } from './scale.ts';

describe('a linear scale', () => {
  it.each([
    [0, 97, 5, [0, 20, 40, 60, 80, 100]],
    [0, 0.23, 5, [0, 0.05, 0.1, 0.15, 0.2, 0.25]],
    [-3, 4, 4, [-4, -2, 0, 2, 4]],
    [0, 12_345, 3, [0, 5000, 10_000, 15_000]],
    [7, 7, 2, [0, 5, 10]],
    [0, 0, 2, [0, 0.5, 1]],
  ])('from %d to %d has round ticks', (from, to, count, ticks) => {
    expect(linearScale({ from, to }, count).ticks).toEqual(ticks);
  });

  it('holds all values, rising, with no more ticks than make sense', () => {
    const value = fc.integer({ min: -1e9, max: 1e9 }).map((thousandths) => thousandths / 1000);
    fc.assert(
      fc.property(value, value, fc.integer({ min: 1, max: 12 }), (left, right, count) => {
        const extent = { from: Math.min(left, right), to: Math.max(left, right) };
        const scale = linearScale(extent, count);
        for (const end of [left, right]) {
          expect(scale.at(end)).toBeGreaterThanOrEqual(-1e-6);
          expect(scale.at(end)).toBeLessThanOrEqual(1 + 1e-6);
        }
        expect(scale.ticks.length).toBeGreaterThanOrEqual(2);
        expect(scale.ticks.length).toBeLessThanOrEqual(count + 2);
        expect([...scale.ticks]).toEqual([...new Set(scale.ticks)].sort((a, b) => a - b));
      }),
    );
  });

  it('labels its ticks with as many digits as they need', () => {
    const { format } = linearScale({ from: 0, to: 0.2 }, 4);
    expect([0, 0.05, 0.1].map(format)).toEqual(['0.00', '0.05', '0.10']);
    expect(linearScale({ from: 0, to: 20_000 }, 4).format(15_000)).toBe('15,000');
  });
});

describe('a logarithmic scale', () => {
  it('has ticks at 1, 2 and 5 of each decade, or at powers of ten where those are too many', () => {
    expect(logScale({ from: 3, to: 60 }, 8).ticks).toEqual([2, 5, 10, 20, 50, 100]);
    expect(logScale({ from: 3, to: 6000 }, 6).ticks).toEqual([10, 100, 1000, 10_000]);
    expect(logScale({ from: 1, to: 100 }, 9).at(10)).toBeCloseTo(0.5);
  });

  it('takes given ticks, and refuses what has no logarithm', () => {
    const scale = scaleWithTicks({ from: 1, to: 16 }, [1, 2, 4, 8, 16], 'log');
    expect(scale.ticks.map(scale.at)).toEqual([0, 0.25, 0.5, 0.75, 1]);
    expect(() => logScale({ from: 0, to: 3 }, 4)).toThrow(RangeError);
    expect(() => scaleWithTicks({ from: 1, to: 2 }, [0, 1], 'log')).toThrow(RangeError);
  });
});

describe('steps and extents', () => {
  it('are round, and empty where nothing is', () => {
    expect([0.011, 0.1, 3, 6, 200.5].map(niceStep)).toEqual([0.02, 0.1, 5, 10, 500]);
    expect(extentOf([3, -1, 2])).toEqual({ from: -1, to: 3 });
    expect(extentOf([])).toBeUndefined();
  });
});
