// The tile of rows and panels that a workgroup computes of a product. Which one is chosen changes no bit of the result.

import type { Format } from './format.ts';
import type { MultiplyKernel } from './kernels/matmul.ts';

export type Tile = Pick<MultiplyKernel, 'rows' | 'panels' | 'ahead' | 'prefetches'>;

/** Those that read least come first. Found by trial on a large GPU. */
const multiplyTiles: readonly Tile[] = [
  { rows: 8, panels: 4, ahead: 2 },
  { rows: 8, panels: 2, ahead: 4 },
  { rows: 4, panels: 4, ahead: 4 },
  { rows: 4, panels: 1, ahead: 2 },
  { rows: 2, panels: 2, ahead: 4 },
  { rows: 2, panels: 1, ahead: 2 },
  { rows: 1, panels: 1, ahead: 4 },
];

/** Workgroups that keep a large GPU busy. */
const ENOUGH_WORKGROUPS = 96;

/** With fewer workgroups, each must read ahead to keep the memory busy. */
const READERS_ENOUGH = 256;

/** The tiles of one matrix. Bytes take many registers: reading ahead costs more than it gains. */
export function tilesFor(format: Format, panels: number): readonly Tile[] {
  const isWaiting = format.kind === 'coded' && format.encoding !== 'byte' && panels < READERS_ENOUGH;
  return multiplyTiles.map((tile) => ({ ...tile, prefetches: isWaiting && tile.panels === 1 }));
}

/** The first of the tiles that leaves enough workgroups, and not more than half of its rows unused; its index. */
export function chooseTile(tiles: readonly Tile[], wanted: number, panels: number): number {
  const rows = Math.max(1, wanted);
  const fitting = tiles.findIndex(
    (tile) =>
      tile.rows < 2 * rows &&
      Math.ceil(rows / tile.rows) * Math.ceil(panels / tile.panels) >= ENOUGH_WORKGROUPS,
  );
  if (fitting !== -1) return fitting;
  // Not enough in any case: no row is computed twice.
  return tiles.findIndex((tile) => tile.panels === 1 && tile.rows <= Math.min(2, rows));
}

/** Rows of tiles for choices of experts: about as many as an expert has. */
export function expertRows(tiles: readonly Tile[], choices: number, experts: number): number {
  const each = Math.max(1, choices / experts);
  return Math.max(...tiles.map(({ rows }) => rows).filter((rows) => rows < 2 * each));
}

/** Of the tiles of that many rows the first that leaves enough workgroups, else the smallest; its index. */
export function chooseExpertTile(
  tiles: readonly Tile[],
  choices: number,
  experts: number,
  panels: number,
): number {
  const rows = expertRows(tiles, choices, experts);
  const rowTiles = Math.max(1, choices / rows);
  const fitting = tiles.findIndex(
    (tile) => tile.rows === rows && rowTiles * Math.ceil(panels / tile.panels) >= ENOUGH_WORKGROUPS,
  );
  return fitting !== -1 ? fitting : tiles.findLastIndex((tile) => tile.rows === rows);
}
