// Learned positions of tokens, as rows of tables with weights.

import type { PositionStep } from '../../model/vision/vision-spec.ts';
import { gridTaps, type Tap } from './grid-taps.ts';
import type { Taps } from './program.ts';
import { type CellGrid, tokenCount } from './token-grid.ts';

export function tableTaps(grid: CellGrid, rows: number): Taps {
  const count = tokenCount(grid);
  if (count !== rows) throw new Error(`a view of ${count} tokens has ${rows} positions`);
  return single(count, (token) => token);
}

/** Of rows, then of columns. */
export function axesTaps(grid: CellGrid): [Taps, Taps] {
  const count = tokenCount(grid);
  return [
    single(count, (token) => Math.floor(token / grid.columns)),
    single(count, (token) => token % grid.columns),
  ];
}

export function gridPositionTaps(
  grid: CellGrid,
  { table, by }: Extract<PositionStep, { readonly kind: 'position-grid' }>,
): Taps {
  const side = Math.sqrt(table.rows);
  const down = gridTaps(by, side, grid.rows);
  const across = gridTaps(by, side, grid.columns);
  const starts = [0];
  const rows: number[] = [];
  const weights: number[] = [];
  for (let token = 0; token < tokenCount(grid); token++) {
    for (const { at: row, weight: high } of down[Math.floor(token / grid.columns)] as readonly Tap[]) {
      for (const { at: column, weight: wide } of across[token % grid.columns] as readonly Tap[]) {
        rows.push(row * side + column);
        weights.push(high * wide);
      }
    }
    starts.push(rows.length);
  }
  return {
    starts: Int32Array.from(starts),
    rows: Int32Array.from(rows),
    weights: Float32Array.from(weights),
  };
}

function single(count: number, rowOf: (token: number) => number): Taps {
  return {
    starts: Int32Array.from({ length: count + 1 }, (_, token) => token),
    rows: Int32Array.from({ length: count }, (_, token) => rowOf(token)),
    weights: new Float32Array(count).fill(1),
  };
}
