import fc from 'fast-check';
import { expect, it } from 'vitest';
import { mostTiles } from './moe-routing.ts';

it('knows how many tiles rows of experts need at most, and no more than that', () => {
  const counts = fc.array(fc.nat(20), { minLength: 1, maxLength: 12 });
  fc.assert(
    fc.property(counts, fc.constantFrom(1, 2, 4, 8), (rowsOf, rows) => {
      const choices = rowsOf.reduce((sum, count) => sum + count, 0);
      const tiles = rowsOf.reduce((sum, count) => sum + Math.ceil(count / rows), 0);
      expect(tiles).toBeLessThanOrEqual(mostTiles({ experts: rowsOf.length, rows }, choices));
    }),
  );
  // One row for each expert but the last, which has all others.
  expect(mostTiles({ experts: 4, rows: 8 }, 3 + 9)).toBe(3 + 2);
});
