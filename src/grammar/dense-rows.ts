// The edges of states as rows of 256: where each byte leads, -1 for nowhere. Made when first asked for.

import type { GrammarTables } from './tables.ts';

const MAX_KEPT = 16_384;

export function denseRows({
  byteEdges,
  byteFirst,
  byteLast,
  byteTo,
}: GrammarTables): (state: number) => Int32Array {
  const rows = new Map<number, Int32Array>();
  return (state) => {
    const known = rows.get(state);
    if (known !== undefined) return known;
    const row = new Int32Array(256).fill(-1);
    for (let edge = byteEdges[state] as number; edge < (byteEdges[state + 1] as number); edge++) {
      row.fill(byteTo[edge] as number, byteFirst[edge], (byteLast[edge] as number) + 1);
    }
    // A row takes a kilobyte, and a grammar may have hundreds of thousands of states.
    if (rows.size >= MAX_KEPT) rows.clear();
    rows.set(state, row);
    return row;
  };
}
