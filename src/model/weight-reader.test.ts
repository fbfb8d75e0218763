import { describe, expect, it } from 'vitest';
import { rms } from '../../test/support/leaves.ts';
import { floatTensor, memoryWeights } from '../../test/support/memory-weights.ts';
import type { RowSlice } from './spec.ts';
import { readBias, readLinearRows, readNorm, rowType } from './weight-reader.ts';

// Row r of the matrix holds [r, r + 0.5]; the vector holds its own indices.
const weights = memoryWeights([
  floatTensor(
    'matrix',
    [24, 2],
    Float32Array.from({ length: 48 }, (_, i) => i / 2),
  ),
  floatTensor(
    'vector',
    [24],
    Float32Array.from({ length: 24 }, (_, i) => i),
  ),
]);

const rowsRead = (slice: RowSlice, first: number, count: number): number[] => {
  const values = new Float32Array(count * 2);
  readLinearRows(weights, slice, first, count, new Uint8Array(values.buffer));
  return [...values].filter((_, index) => index % 2 === 0);
};

describe('readLinearRows', () => {
  it('reads rows from where a slice starts', () => {
    expect(rowsRead({ tensor: 'matrix', firstRow: 5, rows: 10 }, 2, 3)).toEqual([7, 8, 9]);
  });

  // Two heads of 6 rows, stored as pairs (0, 1), (2, 3), (4, 5).
  const interleaved: RowSlice = {
    tensor: 'matrix',
    firstRow: 12,
    rows: 12,
    interleaved: { heads: 2, rotated: 6 },
  };
  const halves = [12, 14, 16, 13, 15, 17, 18, 20, 22, 19, 21, 23];

  it('hands rotary rows on as halves', () => {
    expect(rowsRead(interleaved, 0, 12)).toEqual(halves);
  });

  it('orders any part of them alike', () => {
    for (let first = 0; first <= 12; first++) {
      for (let end = first; end <= 12; end++) {
        expect(rowsRead(interleaved, first, end - first)).toEqual(halves.slice(first, end));
      }
    }
  });

  it('leaves values of a head that are not rotated where they are', () => {
    const partly: RowSlice = {
      tensor: 'matrix',
      firstRow: 12,
      rows: 12,
      interleaved: { heads: 2, rotated: 4 },
    };
    expect(rowsRead(partly, 0, 12)).toEqual([12, 14, 13, 15, 16, 17, 18, 20, 19, 21, 22, 23]);
  });

  it('gathers runs of rows', () => {
    const runs: RowSlice = { tensor: 'matrix', firstRow: 2, rows: 6, runs: { rows: 2, every: 5 } };
    expect(rowsRead(runs, 0, 6)).toEqual([2, 3, 7, 8, 12, 13]);
    expect(rowsRead(runs, 1, 3)).toEqual([3, 7, 8]);
  });

  it('turns matrices, quantized ones as float32', () => {
    // Two heads of three inputs and one row that is another's, of 32 values each: 32 outputs of three inputs.
    const values = Float32Array.from({ length: 8 * 32 }, (_, i) => (i % 32) + 100 * Math.floor(i / 32));
    const blocks = Uint8Array.from({ length: 8 * 34 }, (_, i) => (i % 34 === 1 ? 0x3c : 0));
    for (let row = 0; row < 8; row++) blocks.set([row, 10 + row], row * 34 + 2);
    const stored = memoryWeights([
      floatTensor('floats', [8, 32], values),
      { name: 'blocks', type: 'Q8_0', shape: [8, 32], bytes: blocks },
    ]);
    const read = (tensor: string, first: number, count: number) => {
      const slice: RowSlice = { tensor, firstRow: 0, rows: 64, transposed: { rows: 32, every: 4 } };
      expect(rowType(stored, slice)).toBe('F32');
      const rows = new Float32Array(count * 3);
      readLinearRows(stored, slice, first, count, new Uint8Array(rows.buffer));
      return [...rows];
    };
    expect(read('floats', 1, 1)).toEqual([1, 101, 201]);
    expect(read('floats', 31, 2)).toEqual([31, 131, 231, 400, 500, 600]);
    expect(read('blocks', 0, 2)).toEqual([0, 1, 2, 10, 11, 12]);
    expect(read('blocks', 32, 1)).toEqual([4, 5, 6]);
    expect(rowType(stored, { tensor: 'blocks', firstRow: 0, rows: 8 })).toBe('Q8_0');
  });

  it('refuses rows outside the slice, though the tensor has them', () => {
    expect(() => rowsRead({ tensor: 'matrix', firstRow: 0, rows: 4 }, 2, 3)).toThrow('outside');
  });
});

describe('vectors', () => {
  it('orders a bias as its rows', () => {
    const slice = { tensor: 'vector', firstRow: 4, rows: 4 };
    expect([...readBias(weights, slice)]).toEqual([4, 5, 6, 7]);
    expect([...readBias(weights, { ...slice, interleaved: { heads: 1, rotated: 4 } })]).toEqual([4, 6, 5, 7]);
  });

  it('adds the offset to a norm', () => {
    const { weight } = readNorm(weights, { ...rms(0, 'vector'), offset: 1 });
    expect([...(weight ?? []).slice(0, 3)]).toEqual([1, 2, 3]);
  });
});
