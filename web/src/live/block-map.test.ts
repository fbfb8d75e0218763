import { describe, expect, it } from 'vitest';
import { BlockMap, FIRST_SEAT } from './block-map.ts';

describe('the block map', () => {
  it('knows every block after a snapshot, and what changed after it', () => {
    const blocks = new BlockMap();
    const told: unknown[] = [];
    blocks.onChange((changed) => told.push(changed));
    blocks.reset(10, [
      [2, 1],
      [3, 2],
      [5, 0],
    ]);
    expect(blocks.counts()).toEqual({ noMemory: 5, empty: 2, cached: 3, shared: 0, held: 0 });
    blocks.change([
      [0, 1, FIRST_SEAT + 3],
      [2, 2, 3],
    ]);
    expect(blocks.counts()).toEqual({ noMemory: 5, empty: 1, cached: 1, shared: 2, held: 1 });
    expect(told).toEqual([
      [[0, 10]],
      [
        [0, 1],
        [2, 2],
      ],
    ]);
  });
});
