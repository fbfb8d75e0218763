// A table whose rows become cards on narrow screens, where each value says what it is.

import type { ComponentChildren } from 'preact';
import { Headings, ScrollBox } from './table.tsx';

/** Where there is no value; a card leaves it out. */
export const NONE = '–';

export interface Column<Row> {
  readonly name: string;
  readonly isNumber?: boolean;
  /** For screen readers alone. */
  readonly isHidden?: boolean;
  readonly cell: (row: Row) => ComponentChildren;
}

interface DataTableProps<Row> {
  readonly caption: string;
  /** The first one names the row. */
  readonly columns: readonly Column<Row>[];
  readonly rows: readonly Row[];
  readonly keyOf: (row: Row) => string;
  /** Rows that count no more. */
  readonly isGone?: (row: Row) => boolean;
  /** Shows no more than fit in a box. */
  readonly isCut?: boolean;
}

export function DataTable<Row>({
  caption,
  columns,
  rows,
  keyOf,
  isGone,
  isCut = false,
}: DataTableProps<Row>) {
  const headings = columns.map(({ name, isNumber, isHidden }) =>
    isHidden ? { hidden: name } : isNumber ? { number: name } : name,
  );
  return (
    <ScrollBox name={caption} cut={isCut}>
      <table class="data cards">
        <caption class="offscreen">{caption}</caption>
        <Headings columns={headings} />
        <tbody>
          {rows.map((row) => (
            <tr key={keyOf(row)} class={isGone?.(row) ? 'gone' : undefined}>
              {columns.map(({ name, isNumber, isHidden, cell }, at) => {
                if (at === 0) {
                  return (
                    <th key={name} scope="row">
                      {cell(row)}
                    </th>
                  );
                }
                const value = cell(row);
                return (
                  <td
                    key={name}
                    class={isNumber ? 'number nowrap' : isHidden ? 'actions' : undefined}
                    data-label={isHidden ? undefined : name}
                    data-none={value === NONE}
                  >
                    <div class="cell">{value}</div>
                  </td>
                );
              })}
            </tr>
          ))}
        </tbody>
      </table>
    </ScrollBox>
  );
}
