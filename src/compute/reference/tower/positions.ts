// Learned positions of cells, added to them: from a table, a grid that is interpolated, or a table for each axis.

import type { PositionStep } from '../../../model/vision/vision-spec.ts';
import { gridTaps, type Tap } from '../../tower/grid-taps.ts';
import { decodeRow, type Matrix } from '../linear.ts';
import { addInto } from '../vector.ts';
import type { Loaded } from '../weights.ts';
import { type Cells, tokenCount } from './cells.ts';

type Step<Kind> = Extract<Loaded<PositionStep>, { readonly kind: Kind }>;

export function addPositionTable(cells: Cells, { table }: Step<'position-table'>): Cells {
  if (tokenCount(cells) !== table.rows) {
    throw new Error(`a view of ${tokenCount(cells)} tokens has ${table.rows} positions`);
  }
  return withAdded(cells, (token, into) => decodeRow(table, token, into));
}

export function addPositionAxes(cells: Cells, { columns, rows }: Step<'position-axes'>): Cells {
  const column = new Float32Array(cells.size);
  return withAdded(cells, (token, into) => {
    decodeRow(rows, Math.floor(token / cells.columns), into);
    decodeRow(columns, token % cells.columns, column);
    addInto(into, column);
  });
}

export function addPositionGrid(cells: Cells, { table, by }: Step<'position-grid'>): Cells {
  const side = Math.sqrt(table.rows);
  const down = gridTaps(by, side, cells.rows);
  const across = gridTaps(by, side, cells.columns);
  const decoded = wholeTable(table);
  return withAdded(cells, (token, into) => {
    for (const { at: row, weight: high } of down[Math.floor(token / cells.columns)] as readonly Tap[]) {
      for (const { at: column, weight: wide } of across[token % cells.columns] as readonly Tap[]) {
        const from = (row * side + column) * cells.size;
        for (let i = 0; i < into.length; i++) {
          into[i] = (into[i] as number) + high * wide * (decoded[from + i] as number);
        }
      }
    }
  });
}

function withAdded(cells: Cells, read: (token: number, into: Float32Array) => void): Cells {
  const values = cells.values.slice();
  const row = new Float32Array(cells.size);
  for (let token = 0; token < tokenCount(cells); token++) {
    row.fill(0);
    read(token, row);
    addInto(values.subarray(token * cells.size, (token + 1) * cells.size), row);
  }
  return { ...cells, values };
}

function wholeTable(table: Matrix): Float32Array {
  const values = new Float32Array(table.rows * table.columns);
  for (let row = 0; row < table.rows; row++) {
    decodeRow(table, row, values.subarray(row * table.columns, (row + 1) * table.columns));
  }
  return values;
}
