// Splits a batch that is larger than the buffers of a pass into several, in order. What sees tokens after itself is never cut:
// a bidirectional text, for which there is always room, or an image. Where more of its logits are wanted than there is room
// for, it is computed again. Another sequence reads in its second part the keys and values that the first has stored, and goes
// on from the recurrent state that the first has left in the slot that is the sequence's last.

import type { ModelSpec } from '../../model/spec.ts';
import { attentionsOf, isEncoder } from '../../model/spec-walk.ts';
import type { Batch, BatchImages } from '../backend.ts';
import { type BatchSequence, buildBatch } from '../batch.ts';
import type { StateUse } from '../batch-states.ts';

interface Room {
  readonly rows: number;
  readonly wanted: number;
}

/** Which rows of a sequence stay together. */
export type WholeRuns = 'none' | 'texts' | 'images';

export function wholeRuns(spec: ModelSpec): WholeRuns {
  if (isEncoder(spec)) return 'texts';
  return spec.vision !== undefined && attentionsOf(spec).some(({ imagesBothWays }) => imagesBothWays)
    ? 'images'
    : 'none';
}

/** Rows of one sequence that stay together, and those of them whose logits are wanted of this part. */
interface Run {
  readonly sequence: number;
  readonly first: number;
  readonly end: number;
  readonly wanted: readonly number[];
  /** The part before has computed them, too. */
  readonly again: boolean;
}

export function splitBatch(batch: Batch, room: Room, whole: WholeRuns = 'none'): Batch[] {
  if (batch.tokens.length <= room.rows && batch.logitRows.length <= room.wanted) return [batch];
  const batches: Batch[] = [];
  let part: Run[] = [];
  let wanted = 0;
  for (const run of runsOf(batch, room.wanted, whole)) {
    const first = part[0]?.first ?? run.first;
    if (run.again || run.end - first > room.rows || wanted + run.wanted.length > room.wanted) {
      batches.push(partOf(batch, part));
      part = [];
      wanted = 0;
    }
    if (run.end - run.first > room.rows) {
      throw new Error(
        `batch: ${run.end - run.first} tokens see each other, more than a pass has room for (${room.rows})`,
      );
    }
    part.push(run);
    wanted += run.wanted.length;
  }
  if (part.length > 0) batches.push(partOf(batch, part));
  return batches;
}

function* runsOf(batch: Batch, most: number, whole: WholeRuns): Generator<Run> {
  const isWanted = new Set(batch.logitRows);
  for (const sequence of batch.starts.keys()) {
    const end = batch.rowStarts[sequence + 1] as number;
    for (let first = batch.rowStarts[sequence] as number; first < end; ) {
      const runEnd = whole === 'texts' ? end : whole === 'images' ? imageEnd(batch, first, end) : first + 1;
      const rows = Array.from({ length: runEnd - first }, (_, at) => first + at);
      const wanted = rows.filter((row) => isWanted.has(row));
      for (let at = 0; at === 0 || at < wanted.length; at += most) {
        yield { sequence, first, end: runEnd, wanted: wanted.slice(at, at + most), again: at > 0 };
      }
      first = runEnd;
    }
  }
}

/** The end of the run of an image that begins with a row; the next row where it is of none. */
function imageEnd({ imageEnds }: Batch, first: number, end: number): number {
  const own = imageEnds?.[first] ?? 0;
  let row = first + 1;
  while (own !== 0 && row < end && imageEnds?.[row] === own) row++;
  return row;
}

/** Runs that follow each other, as a batch. */
function partOf(batch: Batch, runs: readonly Run[]): Batch {
  const [first, end] = [runs[0]?.first ?? 0, runs.at(-1)?.end ?? 0];
  const fresh = runs.find(({ again }) => !again)?.first ?? end;
  const sequences = new Map<number, { first: number; end: number }>();
  for (const run of runs) {
    sequences.set(run.sequence, { first: sequences.get(run.sequence)?.first ?? run.first, end: run.end });
  }
  const built = buildBatch(
    [...sequences].map(([sequence, rows]) => sequenceRows(batch, sequence, rows.first, rows.end)),
  );
  const { rotaryPositions, imageEnds, images } = batch;
  return {
    ...built,
    logitRows: Int32Array.from(runs.flatMap(({ wanted }) => wanted.map((row) => row - first))),
    stateRows: batch.stateRows.filter((row) => row >= fresh && row < end).map((row) => row - first),
    ...(rotaryPositions && { rotaryPositions: rotaryPositions.subarray(3 * first, 3 * end) }),
    ...(imageEnds && { imageEnds: imageEnds.subarray(first, end) }),
    ...imagesOf(images, first, end),
  };
}

function sequenceRows(batch: Batch, sequence: number, first: number, end: number): BatchSequence {
  const begin = batch.rowStarts[sequence] as number;
  const state = stateUse(batch, sequence, first, end);
  const adapter = batch.adapters[sequence] ?? -1;
  return {
    tokens: batch.tokens.subarray(first, end),
    start: (batch.starts[sequence] as number) + first - begin,
    blocks: batch.blocks.subarray(batch.blockStarts[sequence], batch.blockStarts[sequence + 1]),
    wantLogits: 'none',
    ...(state && { state }),
    ...(adapter < 0 ? {} : { adapter }),
  };
}

function imagesOf(images: BatchImages | undefined, first: number, end: number): Pick<Batch, 'images'> {
  const { rows, embeddings, deepstack } = images ?? {};
  if (rows === undefined || embeddings === undefined || deepstack === undefined) return {};
  const from = rows.filter((row) => row < first).length;
  const count = rows.filter((row) => row >= first && row < end).length;
  if (count === 0) return {};
  const size = embeddings.length / rows.length;
  const own = (values: Float32Array) => values.subarray(from * size, (from + count) * size);
  return {
    images: {
      rows: rows.slice(from, from + count).map((row) => row - first),
      embeddings: own(embeddings),
      deepstack: deepstack.map(own),
    },
  };
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
