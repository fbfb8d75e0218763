// Features of a picture's views in one sequence of rows.

import { joinedGrid } from '../../model/vision/feature-grid.ts';
import type { FeatureGrid, TileGrid } from '../../model/vision/vision-spec.ts';
import { joinedFloats } from '../join-arrays.ts';

/** A `JoinSpec` whose vector is loaded. */
export type Join =
  | { readonly kind: 'sequence' }
  | { readonly kind: 'grid'; readonly newline: Float32Array; readonly most: number };

/** Features of a view: cells in rows and columns, with `size` values each. */
export interface FeatureCells extends FeatureGrid {
  readonly size: number;
  readonly values: Float32Array;
}

export function joinViews(join: Join, views: readonly FeatureCells[], tiles: TileGrid): Float32Array {
  if (join.kind === 'sequence') return joinedFloats(views.map(({ values }) => values));
  const [whole, ...others] = views as [FeatureCells, ...FeatureCells[]];
  if (others.length === 0) return joinedFloats([whole.values, join.newline]);
  return joinedFloats([whole.values, ...gridRows(join, others, tiles)]);
}

/** The tiles' cells as one grid, each row ended by the vector. */
function gridRows(
  { newline, most }: Extract<Join, { readonly kind: 'grid' }>,
  views: readonly FeatureCells[],
  tiles: TileGrid,
): Float32Array[] {
  const [tile] = views as [FeatureCells];
  const { top, left, shown, shrunk } = joinedGrid(tile, tiles, most);
  const cellAt = (row: number, column: number): Float32Array => {
    const [y, x] = [top + row, left + column];
    const view = views[
      Math.floor(y / tile.rows) * tiles.columns + Math.floor(x / tile.columns)
    ] as FeatureCells;
    const at = ((y % tile.rows) * tile.columns + (x % tile.columns)) * tile.size;
    return view.values.subarray(at, at + tile.size);
  };
  const down = Array.from({ length: shrunk.rows }, (_, row) => nearestTwo(row, shown.rows, shrunk.rows));
  const across = Array.from({ length: shrunk.columns }, (_, column) =>
    nearestTwo(column, shown.columns, shrunk.columns),
  );
  return down.flatMap((rows) => [
    ...across.map((columns) => blend(tile.size, rows, columns, cellAt)),
    newline,
  ]);
}

interface Tap {
  readonly at: number;
  readonly weight: number;
}

/** Bilinear, by centres; one alone where the size stays. */
function nearestTwo(index: number, size: number, count: number): readonly Tap[] {
  const place = Math.max(0, ((index + 0.5) * size) / count - 0.5);
  const first = Math.floor(place);
  const share = place - first;
  if (share === 0) return [{ at: first, weight: 1 }];
  return [
    { at: first, weight: 1 - share },
    { at: Math.min(first + 1, size - 1), weight: share },
  ];
}

function blend(
  size: number,
  rows: readonly Tap[],
  columns: readonly Tap[],
  cellAt: (row: number, column: number) => Float32Array,
): Float32Array {
  const blended = new Float32Array(size);
  for (const row of rows) {
    for (const column of columns) {
      const cell = cellAt(row.at, column.at);
      const weight = row.weight * column.weight;
      for (let i = 0; i < size; i++) blended[i] = (blended[i] as number) + weight * (cell[i] as number);
    }
  }
  return blended;
}
