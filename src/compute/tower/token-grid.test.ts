import { describe, expect, it } from 'vitest';
import { squareSources, turnsOf, windowGroups } from './token-grid.ts';

describe('a grid of tokens', () => {
  it('is joined square by square, without what is left over', () => {
    expect([...squareSources({ rows: 3, columns: 5 }, 2)]).toEqual([0, 1, 5, 6, 2, 3, 7, 8]);
  });

  it('is cut into windows, smaller ones at the edges', () => {
    const { order, starts } = windowGroups({ rows: 3, columns: 3 }, 2);
    expect([...starts]).toEqual([0, 4, 6, 8, 9]);
    expect([...order]).toEqual([0, 1, 3, 4, 2, 5, 6, 7, 8]);
  });

  it('turns cells by row and column, and no class token', () => {
    const pairs = [
      { axis: 'row', frequency: 1, first: 0, second: 2 },
      { axis: 'column', frequency: 0.5, first: 1, second: 3 },
    ] as const;
    const turns = turnsOf({ rows: 1, columns: 2, classToken: 'first' }, { origin: 1, pairs });
    const expected = [
      [1, 1, 0, 0],
      [Math.cos(1), Math.cos(0.5), Math.sin(1), Math.sin(0.5)],
      [Math.cos(1), Math.cos(1), Math.sin(1), Math.sin(1)],
    ];
    expect([...turns]).toEqual([...Float32Array.from(expected.flat())]);
  });
});
