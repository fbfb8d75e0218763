// Splits a batch that is larger than the buffers of a pass into several, in order. A bidirectional sequence is never cut:
// there is room for any. Another one reads in its second part the keys and values that the first has stored, and goes on
// from the recurrent state that the first has left in the slot that is the sequence's last.

import type { Batch } from '../backend.ts';
import { type BatchSequence, buildBatch } from '../batch.ts';
import type { StateUse } from '../batch-states.ts';

interface Room {
  readonly rows: number;
  readonly wanted: number;
}

export function splitBatch(batch: Batch, room: Room, wholeTexts = false): Batch[] {
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
    if (wholeTexts && rows + end - first > room.rows) flush();
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
      const state = stateUse(batch, sequence, from, row);
      const adapter = batch.adapters[sequence] ?? -1;
      const extras = { ...(state && { state }), ...(adapter < 0 ? {} : { adapter }) };
      if (row > from) {
        sequences.push({ tokens, start: start + from - first, blocks, wantLogits: 'none', ...extras });
      }
      if (rows === room.rows || wantedRows.length === room.wanted) flush();
    }
  }
  flush();
  return batches;
}

/** Of rows `begin … end - 1`, where the model has recurrent states. */
function stateUse(
  { recurrentStates, rowStarts }: Batch,
  sequence: number,
  begin: number,
  end: number,
): StateUse | undefined {
  if (recurrentStates.from.length === 0) return undefined;
  const all = Array.from(recurrentStates.rows, (row, index) => ({
    row,
    slot: recurrentStates.slots[index] as number,
  }));
  const own = all.slice(recurrentStates.starts[sequence], recurrentStates.starts[sequence + 1]);
  const last = own.at(-1)?.slot ?? -1;
  const slotAfter = (row: number): number => own.find((one) => one.row === row)?.slot ?? last;
  const from =
    begin === rowStarts[sequence] ? (recurrentStates.from[sequence] as number) : slotAfter(begin - 1);
  const kept = own
    .filter(({ row }) => row >= begin && row < end - 1)
    .map(({ row, slot }) => ({ after: row - begin + 1, slot }));
  return {
    from: from < 0 ? undefined : from,
    kept: [...kept, { after: end - begin, slot: slotAfter(end - 1) }],
  };
}
