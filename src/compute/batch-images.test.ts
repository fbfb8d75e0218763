import { describe, expect, it } from 'vitest';
import { buildBatch } from './batch.ts';
import { batchImages, imageSpans } from './batch-images.ts';

/** Tokens 2 and 3 stand for two features of three values; rows and columns are counted, and one row of text follows. */
const images = {
  places: Int32Array.of(2, 3),
  embeddings: Float32Array.of(1, 2, 3, 4, 5, 6),
  deepstack: [Float32Array.of(7, 8, 9, 10, 11, 12)],
  rotaryPositions: Int32Array.of(0, 0, 0, 1, 1, 1, 2, 2, 2, 2, 2, 3, 4, 4, 4),
};

const plain = { blocks: [0], wantLogits: 'last' } as const;

describe('images of a batch', () => {
  it('are absent where no sequence has any', () => {
    const batch = buildBatch([{ ...plain, tokens: [1, 2], start: 0 }]);
    expect(Object.keys(batch)).not.toContain('images');
    expect(Object.keys(batch)).not.toContain('rotaryPositions');
  });

  it('are those of the rows that a step computes, wherever its piece begins', () => {
    const text = { start: 0, count: 2 };
    const whole = batchImages([text, { start: 0, count: 5, images }]);
    expect(whole.images?.rows).toEqual(Int32Array.of(4, 5));
    expect(whole.images?.embeddings).toEqual(images.embeddings);
    const piece = batchImages([text, { start: 3, count: 2, images }]);
    expect(piece.images?.rows).toEqual(Int32Array.of(2));
    expect(piece.images?.embeddings).toEqual(Float32Array.of(4, 5, 6));
    expect(piece.images?.deepstack).toEqual([Float32Array.of(10, 11, 12)]);
  });

  it('turn by time, row and column, and what comes after goes on from the prompt', () => {
    const { rotaryPositions } = batchImages([
      { start: 3, count: 4, images },
      { start: 6, count: 1 },
    ]);
    expect(rotaryPositions).toEqual(Int32Array.of(2, 2, 3, 4, 4, 4, 5, 5, 5, 6, 6, 6, 6, 6, 6));
  });

  it('see each other from first to last, and text sees none of it', () => {
    const { imageEnds } = batchImages([
      { start: 1, count: 4, images },
      { start: 3, count: 2, images },
    ]);
    expect(imageEnds).toEqual(Int32Array.of(0, 4, 4, 0, 4, 0));
    expect(imageSpans(Int32Array.of(1, 2, 5))).toEqual([
      { first: 1, end: 3 },
      { first: 5, end: 6 },
    ]);
  });
});
