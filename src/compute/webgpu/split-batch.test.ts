import fc from 'fast-check';
import { expect, it } from 'vitest';
import type { Batch } from '../backend.ts';
import { type BatchSequence, buildBatch } from '../batch.ts';
import { checkStates } from '../batch-states.ts';
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

it('texts that are not to be cut stay whole, as many together as there is room for', () => {
  const property = fc.property(sequences, fc.integer({ min: 40, max: 90 }), (all, rows) => {
    const texts = all.map((sequence) => ({ ...sequence, start: 0, wantLogits: 'none' as const }));
    const batch = buildBatch(texts);
    const parts = splitBatch(batch, { rows, wanted: 1 }, 'texts');
    expect(parts.flatMap(rowsOf)).toEqual(rowsOf(batch));
    const lengths = parts.map(({ starts, tokens }) => ({ texts: starts.length, rows: tokens.length }));
    expect(lengths.reduce((sum, part) => sum + part.texts, 0)).toBe(texts.length);
    for (const [index, part] of lengths.slice(1).entries()) {
      const first = parts[index + 1]?.rowStarts[1] as number;
      expect((lengths[index]?.rows as number) + first).toBeGreaterThan(rows);
      expect(part.rows).toBeLessThanOrEqual(rows);
    }
  });
  fc.assert(property, { seed: 1, numRuns: 200 });
});

/** Rows of images with their own numbers, in a batch of texts of which some have one. */
const withImages = sequences.map((all) =>
  all.map((sequence, index): BatchSequence => {
    const { start, tokens } = sequence;
    const length = Math.min(7, tokens.length - 1);
    if (index % 2 === 1 || length < 1) return sequence;
    const places = Int32Array.from({ length }, (_, at) => start + 1 + at);
    const embeddings = Float32Array.from({ length: 2 * length }, (_, at) => 1000 * index + at);
    return { ...sequence, images: { places, embeddings, deepstack: [embeddings.map((one) => -one)] } };
  }),
);

/** Every row as its position and what it has of images. */
function imagesOf({ tokens, rotaryPositions, imageEnds, images }: Batch): string[] {
  return Array.from(tokens, (_, row) => {
    const at = images?.rows.indexOf(row) ?? -1;
    const features = (at < 0 ? [] : [images?.embeddings, ...(images?.deepstack ?? [])]).map((values) =>
      values?.subarray(2 * at, 2 * at + 2).join('-'),
    );
    return [rotaryPositions?.subarray(3 * row, 3 * row + 3).join('-'), imageEnds?.[row], ...features].join();
  });
}

it('a batch that is split hands each row its image, its rotary positions and its features', () => {
  const property = fc.property(withImages, fc.integer({ min: 1, max: 30 }), (all, rows) => {
    const batch = buildBatch(all);
    const parts = splitBatch(batch, { rows, wanted: 9 });
    expect(parts.flatMap(imagesOf)).toEqual(imagesOf(batch));
  });
  fc.assert(property, { seed: 1, numRuns: 200 });
});

it('images whose tokens see each other stay whole, again where more of their logits are wanted', () => {
  const property = fc.property(withImages, fc.integer({ min: 7, max: 30 }), (all, rows) => {
    const batch = buildBatch(all);
    const parts = splitBatch(batch, { rows, wanted: 3 }, 'images');
    let wanted = 0;
    for (const part of parts) {
      expect(part.tokens.length).toBeLessThanOrEqual(rows);
      expect(part.logitRows.length).toBeLessThanOrEqual(3);
      wanted += part.logitRows.length;
      for (const [sequence, start] of part.starts.entries()) {
        const first = part.rowStarts[sequence] as number;
        const end = part.rowStarts[sequence + 1] as number;
        const last = start + end - first;
        // No row sees beyond those that its part has, nor begins in the midst of an image.
        for (const imageEnd of part.imageEnds?.subarray(first, end) ?? [])
          expect(imageEnd).toBeLessThanOrEqual(last);
        const own = part.imageEnds?.[first] ?? 0;
        const before = batch.imageEnds?.[rowAt(batch, part, sequence) - 1] ?? 0;
        if (own !== 0) expect(before).not.toBe(own);
      }
    }
    expect(wanted).toBe(batch.logitRows.length);
    expect(parts.reduce((sum, { stateRows }) => sum + stateRows.length, 0)).toBe(batch.stateRows.length);
  });
  fc.assert(property, { seed: 1, numRuns: 200 });
});

it('more tokens that see each other than there is room for are refused', () => {
  const images = { places: Int32Array.of(0, 1, 2, 3), embeddings: new Float32Array(8), deepstack: [] };
  const sequence = { tokens: [1, 2, 3, 4], start: 0, blocks: [0], wantLogits: 'last', images } as const;
  const split = () => splitBatch(buildBatch([sequence]), { rows: 3, wanted: 9 }, 'images');
  expect(split).toThrow('4 tokens see each other, more than a pass has room for (3)');
});

/** Where the first row of a part's sequence is in the whole batch. */
function rowAt(batch: Batch, part: Batch, sequence: number): number {
  const table = part.blocks.subarray(part.blockStarts[sequence], part.blockStarts[sequence + 1]).join();
  const whole = batch.starts.findIndex((start, index) => {
    const own = batch.blocks.subarray(batch.blockStarts[index], batch.blockStarts[index + 1]).join();
    const rows = (batch.rowStarts[index + 1] as number) - (batch.rowStarts[index] as number);
    const at = (part.starts[sequence] as number) - start;
    return own === table && at >= 0 && at < rows;
  });
  const begin = batch.rowStarts[whole] as number;
  return begin + (part.starts[sequence] as number) - (batch.starts[whole] as number);
}

/** A backend whose recurrent state is the tokens that a sequence has seen. */
function updateStates(slots: Map<number, number[]>, batch: Batch): void {
  const { from, starts, rows, slots: kept } = batch.recurrentStates;
  for (const [sequence, slot] of from.entries()) {
    const seen = slot < 0 ? [] : [...(slots.get(slot) ?? [-1])];
    let next = batch.rowStarts[sequence] as number;
    for (let index = starts[sequence] as number; index < (starts[sequence + 1] as number); index++) {
      const end = (rows[index] as number) + 1;
      seen.push(...batch.tokens.subarray(next, end));
      slots.set(kept[index] as number, [...seen]);
      next = end;
    }
  }
}

it('a batch that is split leaves every memory as the whole one does', () => {
  const tokens = fc.array(fc.nat(99), { minLength: 1, maxLength: 20 });
  const recurrent = fc.array(fc.record({ tokens, begins: fc.boolean(), middle: fc.nat(19) }), {
    minLength: 1,
    maxLength: 5,
  });
  const property = fc.property(recurrent, fc.integer({ min: 1, max: 9 }), (all, rows) => {
    const batch = buildBatch(
      all.map(({ tokens, begins, middle }, index): BatchSequence => {
        const last = { after: tokens.length, slot: 2 * index };
        const isKept = middle > 0 && middle < tokens.length;
        const kept = isKept ? [{ after: middle, slot: 2 * index + 1 }, last] : [last];
        const state = { from: begins ? undefined : 2 * index, kept };
        return { tokens, start: begins ? 0 : 4, blocks: [index], wantLogits: 'none', state };
      }),
    );
    const before = all.map((_, index): [number, number[]] => [2 * index, [1000 + index]]);
    const [whole, split] = [new Map(before), new Map(before)];
    updateStates(whole, batch);
    for (const part of splitBatch(batch, { rows, wanted: 9 })) {
      checkStates(part, 2 * all.length);
      updateStates(split, part);
    }
    expect(split).toEqual(whole);
  });
  fc.assert(property, { seed: 1, numRuns: 200 });
});
