// A StepPlan in the flat form that backends take.

import type { Batch } from '../compute/backend.ts';
import { batchAdapters } from '../compute/batch.ts';
import { batchStates } from '../compute/batch-states.ts';
import type { StepPlan } from './scheduler/step-plan.ts';

export function planBatch({ items, load }: StepPlan): Batch {
  const batch = {
    tokens: new Int32Array(load.tokens),
    rowStarts: new Int32Array(items.length + 1),
    starts: new Int32Array(items.length),
    blocks: new Int32Array(items.reduce((sum, { sequence }) => sum + sequence.blocks.length, 0)),
    blockStarts: new Int32Array(items.length + 1),
    logitRows: new Int32Array(
      items.reduce(
        (sum, { samples, draft, scores: [from, to] }) =>
          sum + Number(samples) + draft.tokens.length + to - from,
        0,
      ),
    ),
    stateRows: new Int32Array(items.reduce((sum, { states: [from, to] }) => sum + to - from, 0)),
  };
  let row = 0;
  let block = 0;
  let wanted = 0;
  let wantedStates = 0;
  for (const [index, item] of items.entries()) {
    const { sequence, start, count, draft, samples, states, scores } = item;
    const own = count - draft.tokens.length;
    batch.tokens.set(sequence.storage.subarray(start, start + own), row);
    batch.tokens.set(draft.tokens, row + own);
    batch.blocks.set(sequence.blocks, block);
    batch.starts[index] = start;
    for (let at = states[0]; at < states[1]; at++) batch.stateRows[wantedStates++] = row + at - start;
    for (let at = scores[0]; at < scores[1]; at++) batch.logitRows[wanted++] = row + at - start;
    row += count;
    block += sequence.blocks.length;
    batch.rowStarts[index + 1] = row;
    batch.blockStarts[index + 1] = block;
    if (samples) for (let at = row - 1 - draft.tokens.length; at < row; at++) batch.logitRows[wanted++] = at;
  }
  const recurrentStates = batchStates(
    items.map(({ state }) => state),
    batch.rowStarts,
  );
  const adapters = batchAdapters(items.map(({ sequence }) => sequence.adapter));
  return { ...batch, recurrentStates, adapters };
}
