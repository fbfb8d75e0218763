import { describe, expect, it } from 'vitest';
import { FIRST_LANE } from '../../../src/engine/live/snapshot.ts';
import { BlockMap } from './block-map.ts';

describe('the block map', () => {
  it('knows every block after a snapshot, and what changed after it', () => {
    const map = new BlockMap();
    const heard: unknown[] = [];
    map.onChange((changed) => heard.push(changed));
    map.apply({
      blockCount: 10,
      whole: true,
      blocks: [
        [0, 2, 1],
        [2, 3, 2],
      ],
    });
    expect(map.counts()).toEqual({ noMemory: 5, empty: 2, cached: 3, shared: 0, held: 0 });
    map.apply({
      blockCount: 10,
      whole: false,
      blocks: [
        [0, 1, FIRST_LANE + 3],
        [2, 2, 3],
      ],
    });
    expect(map.counts()).toEqual({ noMemory: 5, empty: 1, cached: 1, shared: 2, held: 1 });
    expect(heard).toEqual([
      [[0, 10]],
      [
        [0, 1],
        [2, 2],
      ],
    ]);
  });
});
