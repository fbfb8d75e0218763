// What commands print on a terminal: aligned columns, tables and a progress bar.

import { visible } from '../text/visible.ts';

export type Cell = string | number | undefined;

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

export function formatTable(rows: readonly (readonly [name: string, value: string])[]): string {
  const width = Math.max(...rows.map(([name]) => name.length));
  return rows.map(([name, value]) => `${name.padEnd(width)}  ${visible(value)}`).join('\n');
}

export function formatCount(count: number): string {
  return count.toLocaleString('en-US');
}

export interface ProgressBar {
  update(share: number, note?: string): void;
  end(): void;
}

const WIDTH = 30;
export const USUAL_COLUMNS = 80;

function shortened(text: string, room: number): string {
  return text.length <= room ? text : `${text.slice(0, Math.max(0, room - 1))}…`;
}

interface BarOutput {
  readonly isTTY?: boolean;
  readonly columns?: number;
  write(text: string): unknown;
}

export function progressBar(label: string, stream: BarOutput = process.stderr): ProgressBar {
  if (!stream.isTTY) return { update: () => {}, end: () => {} };
  let shown = '';
  return {
    update(share, note = '') {
      const text = `${Math.floor(share * 100)}% ${note}`.trimEnd();
      if (text === shown) return;
      shown = text;
      const filled = Math.round(share * WIDTH);
      const bar = ` [${'='.repeat(filled)}${' '.repeat(WIDTH - filled)}] ${text}`;
      // A line that wraps could not be written over.
      const room = Math.max(0, (stream.columns || USUAL_COLUMNS) - 1);
      stream.write(`\r${`${shortened(label, room - bar.length)}${bar}`.slice(0, room)}\x1b[K`);
    },
    end() {
      stream.write('\r\x1b[2K');
    },
  };
}
