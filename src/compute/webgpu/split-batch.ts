// A batch that is larger than the buffers of a pass, as several that are not, in order. A sequence cut in two sees in
// the second part the keys and values that the first has stored.

import type { Batch } from '../backend.ts';
import { type BatchSequence, buildBatch } from '../batch.ts';

interface Room {
  readonly rows: number;
  readonly wanted: number;
}

export function splitBatch(batch: Batch, room: Room): Batch[] {
  if (batch.tokens.length <= room.rows && batch.logitRows.length <= room.wanted) return [batch];
  const isWanted = new Set(batch.logitRows);
  const isState = new Set(batch.stateRows);
  const batches: Batch[] = [];
  let sequences: BatchSequence[] = [];
  let rows = 0;
  let wantedRows: number[] = [];
  let stateRows: number[] = [];
  const flush = () => {
    const wanted = { logitRows: Int32Array.from(wantedRows), stateRows: Int32Array.from(stateRows) };
    if (rows > 0) batches.push({ ...buildBatch(sequences), ...wanted });
    sequences = [];
    wantedRows = [];
    stateRows = [];
    rows = 0;
  };
  for (const [sequence, start] of batch.starts.entries()) {
    const end = batch.rowStarts[sequence + 1] as number;
    const first = batch.rowStarts[sequence] as number;
    const blocks = batch.blocks.subarray(batch.blockStarts[sequence], batch.blockStarts[sequence + 1]);
    for (let row = first; row < end; ) {
      const from = row;
      while (row < end && rows < room.rows && wantedRows.length < room.wanted) {
        if (isWanted.has(row)) wantedRows.push(rows);
        if (isState.has(row)) stateRows.push(rows);
        rows++;
        row++;
      }
      const tokens = batch.tokens.subarray(from, row);
      if (row > from) sequences.push({ tokens, start: start + from - first, blocks, wantLogits: 'none' });
      if (rows === room.rows || wantedRows.length === room.wanted) flush();
    }
  }
  flush();
  return batches;
}
