// Rows of several columns for people: text to the left, numbers to the right.

import { visible } from '../text/visible.ts';

export type Cell = string | number | undefined;

/** Absent cells show as a dash. */
export function formatColumns(headings: readonly string[], rows: readonly (readonly Cell[])[]): string {
  const isNumeric = headings.map((_, column) => rows.some((row) => typeof row[column] === 'number'));
  const lines = [headings, ...rows].map((row) => headings.map((_, column) => show(row[column])));
  const widths = headings.map((_, column) => Math.max(...lines.map((line) => (line[column] ?? '').length)));
  return lines
    .map((line) =>
      line
        .map((text, column) => {
          const width = widths[column] ?? 0;
          return isNumeric[column] ? text.padStart(width) : text.padEnd(width);
        })
        .join('  ')
        .trimEnd(),
    )
    .join('\n');
}

function show(cell: Cell): string {
  if (cell === undefined) return '-';
  return typeof cell === 'number' ? cell.toLocaleString('en-US') : visible(cell);
}
