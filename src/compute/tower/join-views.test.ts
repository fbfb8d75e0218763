import { describe, expect, it } from 'vitest';

import { featureCount, joinedGrid } from '../../model/vision/feature-grid.ts';
import { joinViews } from './join-views.ts';

const tile = { rows: 4, columns: 4 };

describe('features of tiles joined to one grid', () => {
  it('leave out the rows or columns that show no picture', () => {
    const wide = { rows: 2, columns: 2, picture: { width: 200, height: 100 } };
    const shown = { rows: 4, columns: 8 };
    expect(joinedGrid(tile, wide, 9)).toEqual({ top: 2, left: 0, shown, shrunk: shown });
    const tall = { rows: 3, columns: 1, picture: { width: 10, height: 100 } };
    expect(joinedGrid(tile, tall, 9)).toMatchObject({ top: 0, left: 1, shown: { rows: 12, columns: 2 } });
  });

  it('are made smaller where there are more than may be, and counted so', () => {
    const tiles = { rows: 4, columns: 4, picture: { width: 500, height: 500 } };
    const { shown, shrunk } = joinedGrid(tile, tiles, 4);
    expect([shown, shrunk]).toEqual([
      { rows: 16, columns: 16 },
      { rows: 8, columns: 8 },
    ]);
    const newline = Float32Array.of(9);
    const views = Array.from({ length: 17 }, () => ({
      ...tile,
      size: 1,
      values: new Float32Array(16).fill(5),
    }));
    const join = { kind: 'grid', newline, most: 4 } as const;
    const joined = joinViews(join, views, tiles);
    const spec = { ...join, newline: { leaf: 'vector', tensor: 'newline', size: 1 } } as const;
    expect(joined.length).toBe(featureCount(spec, views, tiles));
    // The whole, then rows of eight equal cells and the vector.
    expect([...joined.subarray(16, 25)]).toEqual([5, 5, 5, 5, 5, 5, 5, 5, 9]);
  });
});
