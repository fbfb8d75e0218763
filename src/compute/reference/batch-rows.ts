// The rows of a batch: their positions, slots and block tables.

import { type Batch, BLOCK_TOKENS } from '../backend.ts';

export interface BatchRows {
  readonly positions: Int32Array;
  /** The last position of each row's sequence in this step. */
  readonly ends: Int32Array;
  /** Where each row's keys and values are stored: `block * 32 + position % 32`. */
  readonly slots: Int32Array;
  readonly tables: readonly Int32Array[];
  readonly imageEnds: Int32Array | undefined;
}

export function batchRows(batch: Batch): BatchRows {
  const positions = new Int32Array(batch.tokens.length);
  const ends = new Int32Array(batch.tokens.length);
  const slots = new Int32Array(batch.tokens.length);
  const tables: Int32Array[] = [];
  for (const [sequence, start] of batch.starts.entries()) {
    const firstRow = batch.rowStarts[sequence] as number;
    const table = batch.blocks.subarray(batch.blockStarts[sequence], batch.blockStarts[sequence + 1]);
    const endRow = batch.rowStarts[sequence + 1] as number;
    for (let row = firstRow; row < endRow; row++) {
      const position = start + row - firstRow;
      positions[row] = position;
      ends[row] = start + endRow - 1 - firstRow;
      slots[row] = slotAt(table, position);
      tables.push(table);
    }
  }
  return { positions, ends, slots, tables, imageEnds: batch.imageEnds };
}

export function slotAt(table: Int32Array, position: number): number {
  const block = table[Math.floor(position / BLOCK_TOKENS)] as number;
  return block * BLOCK_TOKENS + (position % BLOCK_TOKENS);
}
