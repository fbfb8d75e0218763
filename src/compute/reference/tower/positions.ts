// Learned positions of cells, added to them: from a table, a grid that is interpolated, or a table for each axis.

import type { GridInterpolation, PositionStep } from '../../../model/vision/vision-spec.ts';
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
  const down = tapsOf(by, side, cells.rows);
  const across = tapsOf(by, side, cells.columns);
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

interface Tap {
  readonly at: number;
  readonly weight: number;
}

/** Which positions of the grid's side make each of `count` new ones. */
function tapsOf(by: GridInterpolation, side: number, count: number): readonly (readonly Tap[])[] {
  const make = { corners: cornerTaps, antialias: antialiasTaps, cubic: cubicTaps }[by];
  return Array.from({ length: count }, (_, index) => make(index, side, count));
}

function cornerTaps(index: number, side: number, count: number): Tap[] {
  const place = count === 1 ? 0 : (index * (side - 1)) / (count - 1);
  const first = Math.floor(place);
  const share = place - first;
  return [
    { at: first, weight: 1 - share },
    { at: Math.min(first + 1, side - 1), weight: share },
  ];
}

function antialiasTaps(index: number, side: number, count: number): Tap[] {
  const scale = side / count;
  const support = Math.max(scale, 1);
  const centre = (index + 0.5) * scale;
  const first = Math.max(0, Math.trunc(centre - support + 0.5));
  const end = Math.min(side, Math.trunc(centre + support + 0.5));
  const taps = Array.from({ length: end - first }, (_, tap) => ({
    at: first + tap,
    weight: Math.max(0, 1 - Math.abs((first + tap - centre + 0.5) / support)),
  }));
  const sum = taps.reduce((total, { weight }) => total + weight, 0);
  return taps.map(({ at, weight }) => ({ at, weight: weight / sum }));
}

/** Of the cubic. */
const A = -0.75;

function cubicTaps(index: number, side: number, count: number): Tap[] {
  const place = ((index + 0.5) * side) / count - 0.5;
  const first = Math.floor(place) - 1;
  return Array.from({ length: 4 }, (_, tap) => ({
    at: Math.min(side - 1, Math.max(0, first + tap)),
    weight: cubic(Math.abs(place - first - tap)),
  }));
}

function cubic(x: number): number {
  if (x <= 1) return ((A + 2) * x - (A + 3)) * x * x + 1;
  return x < 2 ? A * (((x - 5) * x + 8) * x - 4) : 0;
}
