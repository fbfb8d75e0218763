import { describe, expect, it } from 'vitest';
import { drawLength, formatLengths, parseLengths } from './length-distribution.ts';
import { randomLoad } from './random-load.ts';

const random = randomLoad(7);
const draws = (text: string, count = 4000) => {
  const lengths = parseLengths(text);
  if (lengths === undefined) throw new Error(`${text} is no distribution`);
  return Array.from({ length: count }, (_, n) => drawLength(lengths, random.of('promptTokens', n)));
};
const mean = (values: readonly number[]) => values.reduce((sum, value) => sum + value, 0) / values.length;

describe('a distribution of lengths', () => {
  it.each(['256', '128-512', '5-5', 'normal:256,64', 'lognormal:256,0.5'])(
    '%s is read and written',
    (text) => {
      expect(formatLengths(parseLengths(text) as NonNullable<ReturnType<typeof parseLengths>>)).toBe(text);
    },
  );

  it.each(['', '0', '-3', '5-2', '0-4', 'normal:256', 'normal:0,4', 'gamma:1,2', '1.5', '12 '])(
    '%j is none',
    (text) => {
      expect(parseLengths(text)).toBeUndefined();
    },
  );

  it('draws whole numbers as its form says', () => {
    expect(new Set(draws('17', 50))).toEqual(new Set([17]));
    const uniform = draws('3-7');
    expect([...new Set(uniform)].sort()).toEqual([3, 4, 5, 6, 7]);
    expect(mean(uniform)).toBeCloseTo(5, 0);
    const normal = draws('normal:256,64');
    expect(mean(normal)).toBeGreaterThan(252);
    expect(mean(normal)).toBeLessThan(260);
    const deviation = Math.sqrt(mean(normal.map((value) => (value - mean(normal)) ** 2)));
    expect(deviation).toBeGreaterThan(60);
    expect(deviation).toBeLessThan(68);
    const lognormal = draws('lognormal:256,0.5').sort((left, right) => left - right);
    expect(lognormal[2000]).toBeGreaterThan(245);
    expect(lognormal[2000]).toBeLessThan(267);
    // exp(0.5² / 2) times the median.
    expect(mean(lognormal) / 256).toBeCloseTo(1.13, 1);
  });

  it('never draws less than one token', () => {
    expect(Math.min(...draws('normal:2,50'))).toBe(1);
  });
});
