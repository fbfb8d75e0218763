// The report of a load test as text for a terminal.

import type { RowTable } from '../bench/plot/page.ts';
import { failureTable, keyTable, latencyTable, notesOn, overviewRows } from '../bench/serve/report-rows.ts';
import type { ServeReport } from '../bench/serve/serve-report.ts';
import { formatTable } from './table.ts';

export function reportText(report: ServeReport): string {
  const { summary, model, url } = report;
  return [
    `${model} at ${url}`,
    formatTable(overviewRows(report)),
    layOut(latencyTable(summary)),
    layOut(keyTable(report)),
    layOut(failureTable(summary)),
    notesOn(report).join('\n'),
  ]
    .filter((part) => part !== '')
    .join('\n\n');
}

/** Words to the left, numbers to the right. */
function layOut(table: RowTable | undefined): string {
  if (table === undefined) return '';
  const { headings, rows } = table;
  const lines = [headings, ...rows];
  const widths = headings.map((_, column) => Math.max(...lines.map((line) => line[column]?.length ?? 0)));
  const isText = headings.map((_, column) => rows.some((row) => /^[a-z]/i.test(row[column] ?? '')));
  const place = (text: string, column: number) => {
    const width = widths[column] ?? 0;
    return isText[column] ? text.padEnd(width) : text.padStart(width);
  };
  return lines.map((line) => line.map(place).join('  ').trimEnd()).join('\n');
}
