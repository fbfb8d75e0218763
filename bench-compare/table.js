// Rows of text as a table for people: names to the left, figures to the right.

/** @param {readonly (readonly string[])[]} rows all of one length */
export function alignedTable(rows) {
  const widths = rows[0].map((_, column) => Math.max(...rows.map((row) => row[column].length)));
  return rows
    .map((row) =>
      row
        .map((cell, column) => (column === 0 ? cell.padEnd(widths[0]) : cell.padStart(widths[column])))
        .join('  '),
    )
    .join('\n');
}
