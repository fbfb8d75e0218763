import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { utf8Sequences } from './code-points.ts';

/** First and last characters of each number of bytes; halves of surrogate pairs have none. */
const edges = [0, 0x7f, 0x80, 0x7ff, 0x800, 0xd7ff, 0xe000, 0xffff, 0x10000, 0x10ffff];

const bytesOf = (codePoint: number) => [...Buffer.from(String.fromCodePoint(codePoint))];

/** How many of a range's sequences have a character's bytes. */
function matches(first: number, last: number, codePoint: number): number {
  const bytes = bytesOf(codePoint);
  return utf8Sequences(first, last).filter(
    (ranges) =>
      ranges.length === bytes.length &&
      ranges.every(([low, high], at) => low <= (bytes[at] as number) && (bytes[at] as number) <= high),
  ).length;
}

describe('byte sequences of a range of characters', () => {
  it.each(edges)('are the bytes of a single character: %i', (codePoint) => {
    expect(utf8Sequences(codePoint, codePoint)).toEqual([bytesOf(codePoint).map((byte) => [byte, byte])]);
  });

  it('hold each character of the range once, and no other', () => {
    const characters = fc.oneof(fc.constantFrom(...edges), fc.integer({ min: 0, max: 0xd7ff }));
    fc.assert(
      fc.property(characters, characters, characters, (one, other, probe) => {
        const [first, last] = [Math.min(one, other), Math.max(one, other)];
        for (const codePoint of [first, last, probe]) {
          expect(matches(first, last, codePoint)).toBe(Number(first <= codePoint && codePoint <= last));
        }
      }),
      { numRuns: 500 },
    );
  });
});
