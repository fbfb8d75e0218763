import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { BLOCK_TOKENS } from '../../compute/backend.ts';
import { chunk, furtherShare, leadingShare } from './chunk.ts';

describe('leadingShare', () => {
  it('is all for the only prompt, else most of it', () => {
    expect([256, 64, 1].map((left) => leadingShare(left, false))).toEqual([256, 64, 1]);
    expect([256, 64, 32].map((left) => leadingShare(left, true))).toEqual([192, 48, 16]);
  });

  it('is never nothing where something is left', () => {
    expect([20, 3, 1, 0].map((left) => leadingShare(left, true))).toEqual([10, 2, 1, 0]);
  });
});

describe('furtherShare', () => {
  it('is half for each prompt but the last', () => {
    expect(furtherShare(128, 999, true)).toBe(64);
    expect(furtherShare(20, 999, true)).toBe(16);
    expect(furtherShare(128, 999, false)).toBe(128);
  });

  it('is nothing where only a crumb would be left, unless that ends the prompt', () => {
    expect(furtherShare(15, 999, false)).toBe(0);
    expect(furtherShare(15, 14, true)).toBe(15);
    expect(furtherShare(0, 5, false)).toBe(0);
  });
});

describe('chunk', () => {
  it('ends at a block boundary or at the end of the sequence', () => {
    expect(chunk(0, 1000, 100)).toBe(96);
    expect(chunk(96, 1000, 100)).toBe(96);
    expect(chunk(20, 1000, 100)).toBe(76);
    expect(chunk(20, 70, 100)).toBe(70);
  });

  it('takes a part of a block where nothing better is possible', () => {
    expect(chunk(0, 1000, 10)).toBe(10);
    expect(chunk(0, 1000, 63)).toBe(63);
    expect(chunk(0, 1000, 0)).toBe(0);
  });

  it('keeps to its limits and uses most of what it may', () => {
    const number = fc.nat({ max: 3000 });
    fc.assert(
      fc.property(number, number, number, (start, remaining, tokens) => {
        const count = chunk(start, remaining, tokens);
        const most = Math.min(tokens, remaining);
        expect(count).toBeLessThanOrEqual(most);
        expect(4 * count).toBeGreaterThanOrEqual(3 * most);
        const aligned = count === remaining || (start + count) % BLOCK_TOKENS === 0;
        expect(aligned || count === tokens).toBe(true);
      }),
    );
  });
});
