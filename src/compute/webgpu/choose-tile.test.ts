import { describe, expect, it } from 'vitest';
import { chooseExpertTile, chooseTile, expertRows, type Tile, tilesFor } from './choose-tile.ts';
import { formats } from './format.ts';

function chosen(rows: number, panels: number): Tile {
  const tiles = tilesFor(formats.Q4_0, panels);
  return tiles[chooseTile(tiles, rows, panels)] as Tile;
}

describe('the tile of a product', () => {
  it('exists for every number of rows, none included, and every size of matrix', () => {
    for (let rows = 0; rows <= 600; rows++) {
      for (const panels of [1, 3, 32, 128, 896, 4008]) expect(chosen(rows, panels)).toBeDefined();
    }
  });

  it('never leaves half of its rows unused', () => {
    for (let rows = 1; rows <= 64; rows++) {
      for (const panels of [1, 128, 4008]) expect(chosen(rows, panels).rows).toBeLessThan(2 * rows);
    }
  });

  it('is large where there is enough to do, and small where few workgroups would be left', () => {
    expect(chosen(64, 896)).toMatchObject({ rows: 8, panels: 4 });
    expect(chosen(8, 128).rows * chosen(8, 128).panels).toBeLessThanOrEqual(4);
    expect(chosen(1, 896)).toMatchObject({ rows: 1, panels: 1 });
  });

  it('reads ahead where few workgroups would leave the memory idle', () => {
    expect(chosen(1, 128).prefetches).toBe(true);
    expect(chosen(1, 896).prefetches).toBe(false);
    expect(tilesFor(formats.Q8_0, 128).some(({ prefetches }) => prefetches)).toBe(false);
  });
});

describe('the tile of a product with experts', () => {
  const tiles = tilesFor(formats.Q4_0, 48);
  const chosenOf = (choices: number, experts: number, panels: number) =>
    tiles[chooseExpertTile(tiles, choices, experts, panels)] as Tile;

  it('has as many rows for every matrix of a layer, whatever its size', () => {
    for (let choices = 1; choices <= 600; choices++) {
      const rows = expertRows(tiles, choices, 32);
      for (const panels of [1, 3, 48, 128, 896]) expect(chosenOf(choices, 32, panels).rows).toBe(rows);
    }
  });

  it('has about as many rows as an expert', () => {
    expect(expertRows(tiles, 8, 128)).toBe(1);
    expect(expertRows(tiles, 512, 128)).toBe(4);
    expect(expertRows(tiles, 4096, 128)).toBe(8);
  });
});
