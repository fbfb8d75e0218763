// How many features a tower gives for a view, and for all views of a picture, by their sizes alone.

import type { TileSize } from './preprocessing.ts';
import type { FeatureGrid, JoinSpec, TileGrid, TowerStep } from './vision-spec.ts';

export function featureGrid(steps: readonly TowerStep[], { width, height }: TileSize): FeatureGrid {
  return steps.reduce(
    (grid, step) => {
      const isGrouping = step.kind === 'patches' || step.kind === 'merge' || step.kind === 'pool';
      if (!isGrouping) return grid;
      return { rows: Math.floor(grid.rows / step.size), columns: Math.floor(grid.columns / step.size) };
    },
    { rows: height, columns: width },
  );
}

/** The part of all tiles' cells that shows the picture, and what it is made smaller to. */
export interface JoinedGrid {
  readonly top: number;
  readonly left: number;
  readonly shown: FeatureGrid;
  readonly shrunk: FeatureGrid;
}

/** A canvas only a little too large stays as it is. */
const LARGEST_RATIO = 1.1;

export function joinedGrid(
  tile: FeatureGrid,
  { rows, columns, picture }: TileGrid,
  most: number,
): JoinedGrid {
  const all = { rows: rows * tile.rows, columns: columns * tile.columns };
  const { top, left } = paddingOf(all, picture);
  const shown = { rows: all.rows - 2 * top, columns: all.columns - 2 * left };
  const ratio = Math.sqrt((shown.rows * shown.columns) / (most * tile.rows ** 2));
  if (ratio <= LARGEST_RATIO) return { top, left, shown, shrunk: shown };
  const shrunk = { rows: Math.floor(shown.rows / ratio), columns: Math.floor(shown.columns / ratio) };
  return { top, left, shown, shrunk };
}

function paddingOf(
  all: FeatureGrid,
  { width, height }: TileSize,
): { readonly top: number; readonly left: number } {
  // To seven digits, so that a whole number is not missed by a rounding error.
  const whole = (side: number) => Math.trunc(Math.round(side * 1e7) / 1e7);
  if (width / height > all.columns / all.rows) {
    return { top: Math.floor((all.rows - whole((height * all.columns) / width)) / 2), left: 0 };
  }
  return { top: 0, left: Math.floor((all.columns - whole((width * all.rows) / height)) / 2) };
}

/** Features of all views, as they are joined. */
export function featureCount(join: JoinSpec, views: readonly FeatureGrid[], tiles: TileGrid): number {
  const sum = views.reduce((total, { rows, columns }) => total + rows * columns, 0);
  const [whole, tile] = views;
  if (join.kind === 'sequence' || whole === undefined) return sum;
  if (tile === undefined) return sum + 1;
  const { shrunk } = joinedGrid(tile, tiles, join.most);
  return whole.rows * whole.columns + shrunk.rows * (shrunk.columns + 1);
}
