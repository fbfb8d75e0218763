// Where tokens of a view stand: cells in rows and columns, row by row, and a class token before or after them where there is one.

import type { GridRopeSpec } from '../../model/vision/vision-spec.ts';
import type { TokenGroups } from './program.ts';

export interface CellGrid {
  readonly rows: number;
  readonly columns: number;
  readonly classToken?: 'first' | 'last' | undefined;
}

export function tokenCount({ rows, columns, classToken }: CellGrid): number {
  return rows * columns + (classToken === undefined ? 0 : 1);
}

/** The token of the first cell. */
export function firstCell({ classToken }: CellGrid): number {
  return classToken === 'first' ? 1 : 0;
}

/** For each square of cells its own, row by row; what is left over at the lower and right edges is dropped. */
export function squareSources(grid: CellGrid, side: number): Int32Array {
  if (grid.classToken !== undefined) throw new Error('cells beside a class token are never joined');
  const columns = Math.floor(grid.columns / side);
  const squares = Math.floor(grid.rows / side) * columns;
  const sources = new Int32Array(squares * side * side);
  for (let at = 0; at < sources.length; at++) {
    const square = Math.floor(at / (side * side));
    const member = at % (side * side);
    const row = Math.floor(square / columns) * side + Math.floor(member / side);
    sources[at] = row * grid.columns + (square % columns) * side + (member % side);
  }
  return sources;
}

/** For each token cosines of all pairs, then sines; class tokens are not turned. */
export function turnsOf(grid: CellGrid, { origin, pairs }: GridRopeSpec): Float32Array {
  const turns = new Float32Array(2 * pairs.length * tokenCount(grid));
  // The angles are those of rows and columns, of which there are far fewer than cells.
  const places = Array.from({ length: Math.max(grid.rows, grid.columns) }, (_, place) =>
    pairs.map(({ frequency }) => {
      const angle = (place + origin) * frequency;
      return { cosine: Math.cos(angle), sine: Math.sin(angle) };
    }),
  );
  const first = firstCell(grid);
  for (let token = 0; token < tokenCount(grid); token++) {
    const cell = token - first;
    const isCell = cell >= 0 && cell < grid.rows * grid.columns;
    const at = 2 * pairs.length * token;
    for (const [pair, { axis }] of pairs.entries()) {
      const place = axis === 'row' ? Math.floor(cell / grid.columns) : cell % grid.columns;
      const { cosine, sine } = isCell ? (places[place]?.[pair] ?? still) : still;
      turns[at + pair] = cosine;
      turns[at + pairs.length + pair] = sine;
    }
  }
  return turns;
}

const still = { cosine: 1, sine: 0 };

/** Tokens that see each other: all, or those of one square window. */
export function windowGroups(grid: CellGrid, window: number | undefined): TokenGroups {
  const count = tokenCount(grid);
  if (window === undefined) {
    return {
      order: Int32Array.from({ length: count }, (_, token) => token),
      starts: Int32Array.of(0, count),
    };
  }
  if (grid.classToken !== undefined) throw new Error('a class token is in no window');
  const across = Math.ceil(grid.columns / window);
  const groups = Array.from({ length: across * Math.ceil(grid.rows / window) }, (): number[] => []);
  for (let cell = 0; cell < count; cell++) {
    const row = Math.floor(Math.floor(cell / grid.columns) / window);
    groups[row * across + Math.floor((cell % grid.columns) / window)]?.push(cell);
  }
  const starts = [0];
  for (const { length } of groups) starts.push((starts.at(-1) as number) + length);
  return { order: Int32Array.from(groups.flat()), starts: Int32Array.from(starts) };
}
