import { describe, expect, it } from 'vitest';
import { philox, seedFrom, uniformAt } from './random.ts';

const COUNT = 20_000;

function uniforms(of: (index: number) => number): number[] {
  return Array.from({ length: COUNT }, (_, index) => of(index));
}

function chiSquare(values: readonly number[], buckets: number): number {
  const counts = new Array<number>(buckets).fill(0);
  for (const value of values) {
    const bucket = Math.floor(value * buckets);
    counts[bucket] = (counts[bucket] as number) + 1;
  }
  const expected = values.length / buckets;
  return counts.reduce((sum, count) => sum + (count - expected) ** 2 / expected, 0);
}

function correlation(left: readonly number[], right: readonly number[]): number {
  const centred = left.map((value, index) => (value - 0.5) * ((right[index] as number) - 0.5));
  return (12 * centred.reduce((sum, value) => sum + value, 0)) / left.length;
}

describe('philox', () => {
  // The known answers published with the Random123 library for philox4x32 with ten rounds.
  it('gives the published answers', () => {
    expect(philox([0, 0, 0, 0], [0, 0])).toEqual([0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8]);
    const ones = 0xffffffff;
    expect(philox([ones, ones, ones, ones], [ones, ones])).toEqual([
      0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd,
    ]);
    expect(philox([0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344], [0xa4093822, 0x299f31d0])).toEqual([
      0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1,
    ]);
  });
});

describe('uniformAt', () => {
  const alongPositions = uniforms((index) => uniformAt(seedFrom(42n), index, 0));
  const alongSeeds = uniforms((index) => uniformAt(seedFrom(BigInt(index)), 9, 0));
  const alongChoices = uniforms((index) => uniformAt(seedFrom(42n), 9, index));

  it.each([
    ['positions', alongPositions],
    ['seeds', alongSeeds],
    ['choices', alongChoices],
  ])('is uniform along %s', (_, values) => {
    expect(values.every((value) => value >= 0 && value < 1)).toBe(true);
    expect(Math.abs(values.reduce((sum, value) => sum + value, 0) / COUNT - 0.5)).toBeLessThan(0.01);
    // 99 degrees of freedom: 148 is exceeded once in a thousand.
    expect(chiSquare(values, 100)).toBeLessThan(148);
  });

  it('does not tie neighbours together', () => {
    const neighbours = [
      uniforms((index) => uniformAt(seedFrom(42n), index + 1, 0)),
      uniforms((index) => uniformAt(seedFrom(43n), index, 0)),
      uniforms((index) => uniformAt(seedFrom(42n), index, 1)),
      uniforms((index) => uniformAt(seedFrom(42n + (1n << 32n)), index, 0)),
    ];
    for (const values of neighbours) expect(Math.abs(correlation(alongPositions, values))).toBeLessThan(0.03);
  });

  it('uses 53 bits', () => {
    const lowest = alongPositions.map((value) => (value * 2 ** 53) % 2);
    expect(new Set(lowest)).toEqual(new Set([0, 1]));
  });
});

describe('seedFrom', () => {
  it('keeps 64 bits, signed or not', () => {
    expect(seedFrom(0x123456789abcdef0n)).toEqual({ low: 0x9abcdef0, high: 0x12345678 });
    expect(seedFrom(-1n)).toEqual(seedFrom(2n ** 64n - 1n));
  });
});
