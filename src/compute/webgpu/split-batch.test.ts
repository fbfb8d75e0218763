import fc from 'fast-check';
import { expect, it } from 'vitest';
import type { Batch } from '../backend.ts';
import { type BatchSequence, buildBatch } from '../batch.ts';
import { splitBatch } from './split-batch.ts';

/** Every row as its token, position, table, and whether its logits and its state are wanted. */
function rowsOf(batch: Batch): string[] {
  const wanted = new Set(batch.logitRows);
  const states = new Set(batch.stateRows);
  return Array.from(batch.tokens, (token, row) => {
    const sequence = batch.rowStarts.findIndex((first, index) => index > 0 && row < first) - 1;
    const position = (batch.starts[sequence] as number) + row - (batch.rowStarts[sequence] as number);
    const table = batch.blocks.subarray(batch.blockStarts[sequence], batch.blockStarts[sequence + 1]);
    return [token, position, table.join('-'), wanted.has(row), states.has(row)].join();
  });
}

const sequences: fc.Arbitrary<BatchSequence[]> = fc.array(
  fc.record({
    tokens: fc.array(fc.nat(99), { minLength: 1, maxLength: 40 }),
    start: fc.nat(50),
    blocks: fc.array(fc.nat(20), { minLength: 3, maxLength: 4 }),
    wantLogits: fc.constantFrom('last', 'all', 'none'),
    wantStates: fc.constantFrom('last', 'all', 'none'),
  }),
  { minLength: 1, maxLength: 6 },
);

it('a batch that is split keeps every row, in order, within the room there is', () => {
  const property = fc.property(
    sequences,
    fc.integer({ min: 1, max: 30 }),
    fc.integer({ min: 1, max: 9 }),
    (all, rows, wanted) => {
      const batch = buildBatch(all);
      const parts = splitBatch(batch, { rows, wanted });
      for (const part of parts) {
        expect(part.tokens.length).toBeLessThanOrEqual(rows);
        expect(part.logitRows.length).toBeLessThanOrEqual(wanted);
      }
      expect(parts.flatMap(rowsOf)).toEqual(rowsOf(batch));
    },
  );
  fc.assert(property, { seed: 1, numRuns: 200 });
});
