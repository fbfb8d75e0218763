// What flows through a tower: cells in rows and columns with as many values each, and a class token beside them where there is one.

export interface Cells {
  readonly rows: number;
  readonly columns: number;
  /** Values of each cell. */
  readonly size: number;
  /** Row by row; a class token comes before or after all cells. */
  readonly values: Float32Array;
  readonly classToken?: 'first' | 'last' | undefined;
}

export function tokenCount({ values, size }: Cells): number {
  return values.length / size;
}

/** The token of the first cell. */
export function firstCell({ classToken }: Cells): number {
  return classToken === 'first' ? 1 : 0;
}

/** Squares of cells become one, which `fill` writes; what is left over at the lower and right edges is dropped. */
export function mapSquares(
  cells: Cells,
  side: number,
  size: number,
  fill: (members: readonly Float32Array[], into: Float32Array) => void,
): Cells {
  const rows = Math.floor(cells.rows / side);
  const columns = Math.floor(cells.columns / side);
  const values = new Float32Array(rows * columns * size);
  for (let index = 0; index < rows * columns; index++) {
    const top = Math.floor(index / columns) * side;
    const left = (index % columns) * side;
    const members = Array.from({ length: side * side }, (_, member) => {
      const row = top + Math.floor(member / side);
      const at = (row * cells.columns + left + (member % side)) * cells.size;
      return cells.values.subarray(at, at + cells.size);
    });
    fill(members, values.subarray(index * size, (index + 1) * size));
  }
  return { rows, columns, size, values };
}
