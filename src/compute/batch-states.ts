// Which state slots the sequences of a batch read and write.

import type { Batch, BatchStates } from './backend.ts';

export interface StateUse {
  /** Undefined at the beginning of a sequence. */
  readonly from: number | undefined;
  /** The slot that stores the state after the first `after` new tokens; the last entry is for all of them. */
  readonly kept: readonly { readonly after: number; readonly slot: number }[];
}

/** A sequence that has one slot to itself. */
export function ownSlot(
  sequence: { readonly start: number; readonly tokens: ArrayLike<number> },
  slot: number,
): StateUse {
  return {
    from: sequence.start === 0 ? undefined : slot,
    kept: [{ after: sequence.tokens.length, slot }],
  };
}

const none = new Int32Array(0);
const noStates: BatchStates = { from: none, starts: none, rows: none, slots: none };

/** All sequences have one, or none has. */
export function batchStates(
  recurrentStates: readonly (StateUse | undefined)[],
  rowStarts: Int32Array,
): BatchStates {
  if (recurrentStates[0] === undefined) return noStates;
  const present = recurrentStates.filter((state) => state !== undefined);
  const kept = recurrentStates.flatMap((state, index) =>
    (state?.kept ?? []).map(({ after, slot }) => ({ row: (rowStarts[index] as number) + after - 1, slot })),
  );
  const starts = new Int32Array(present.length + 1);
  for (const [index, { kept: own }] of present.entries()) {
    starts[index + 1] = (starts[index] as number) + own.length;
  }
  return {
    from: Int32Array.from(present, ({ from }) => from ?? -1),
    starts,
    rows: Int32Array.from(kept, ({ row }) => row),
    slots: Int32Array.from(kept, ({ slot }) => slot),
  };
}

/** Throws where a slot is out of range, or written by one sequence and used by another. */
export function checkStates(
  { recurrentStates, rowStarts, starts: positions }: Batch,
  slotCount: number,
): void {
  const { from, starts, rows, slots } = recurrentStates;
  const sequences = positions.length;
  if (from.length !== sequences || starts.length !== sequences + 1 || starts[0] !== 0) {
    throw new Error(`batch: recurrent states must be given for each of ${sequences} sequences`);
  }
  if (starts[sequences] !== rows.length || rows.length !== slots.length) {
    throw new Error('batch: each stored state has a row and a slot');
  }
  const writers = new Map<number, number>();
  for (let sequence = 0; sequence < sequences; sequence++) {
    if ((from[sequence] as number) < 0 !== (positions[sequence] === 0)) {
      throw new Error(
        `batch: sequence ${sequence} starts from a state slot exactly if its position is not 0`,
      );
    }
    const begin = starts[sequence] as number;
    const end = starts[sequence + 1] as number;
    if (!(end > begin) || rows[end - 1] !== (rowStarts[sequence + 1] as number) - 1) {
      throw new Error(`batch: sequence ${sequence} must store its state after its last row`);
    }
    let row = (rowStarts[sequence] as number) - 1;
    for (let index = begin; index < end; index++) {
      if (!((rows[index] as number) > row))
        throw new Error('batch: recurrent states are stored in the order of rows');
      row = rows[index] as number;
      const slot = slots[index] as number;
      if (!(slot >= 0 && slot < slotCount)) {
        throw new Error(`batch: state slot ${slot} is not within 0 to ${slotCount - 1}`);
      }
      if (writers.has(slot)) throw new Error(`batch: state slot ${slot} is written twice`);
      writers.set(slot, sequence);
    }
  }
  for (const [sequence, slot] of from.entries()) {
    if (slot >= slotCount) throw new Error(`batch: state slot ${slot} is not within 0 to ${slotCount - 1}`);
    const writer = writers.get(slot);
    if (writer === undefined || writer === sequence) continue;
    throw new Error(`batch: sequence ${sequence} starts from state slot ${slot}, which ${writer} writes`);
  }
}
