// A StepPlan in the flat form that backends take.

import type { Batch } from '../compute/backend.ts';
import { batchAdapters } from '../compute/batch.ts';
import { batchImages } from '../compute/batch-images.ts';
import { batchStates } from '../compute/batch-states.ts';
import type { StepItem, StepPlan } from './scheduler/step-plan.ts';

export function planBatch({ items, load }: StepPlan): Batch {
  const sizes = sizesOf(items);
  const tokens = new Int32Array(load.tokens);
  const rowStarts = new Int32Array(items.length + 1);
  const starts = new Int32Array(items.length);
  const blocks = new Int32Array(sizes.blocks);
  const blockStarts = new Int32Array(items.length + 1);
  const logitRows = new Int32Array(sizes.logitRows);
  const stateRows = new Int32Array(sizes.stateRows);
  let row = 0;
  let block = 0;
  let wanted = 0;
  let wantedStates = 0;
  for (let index = 0; index < items.length; index++) {
    const { sequence, start, count, draft, samples, states, scores } = items[index] as StepItem;
    const own = count - draft.tokens.length;
    // Most items have one token: a loop is faster than `set` with a view.
    for (let at = 0; at < own; at++) tokens[row + at] = sequence.storage[start + at] as number;
    for (let at = own; at < count; at++) tokens[row + at] = draft.tokens[at - own] as number;
    for (const each of sequence.blocks) blocks[block++] = each;
    starts[index] = start;
    for (let at = states[0]; at < states[1]; at++) stateRows[wantedStates++] = row + at - start;
    for (let at = scores[0]; at < scores[1]; at++) logitRows[wanted++] = row + at - start;
    row += count;
    rowStarts[index + 1] = row;
    blockStarts[index + 1] = block;
    if (samples) for (let at = row - 1 - draft.tokens.length; at < row; at++) logitRows[wanted++] = at;
  }
  const recurrentStates = batchStates(
    items.map(({ state }) => state),
    rowStarts,
  );
  const adapters = batchAdapters(items.map(({ sequence }) => sequence.adapter));
  return {
    tokens,
    rowStarts,
    starts,
    blocks,
    blockStarts,
    logitRows,
    stateRows,
    recurrentStates,
    adapters,
    ...imageParts(items),
  };
}

/** Most steps have none: nothing is made for them. */
function imageParts(items: readonly StepItem[]): ReturnType<typeof batchImages> {
  if (items.every(({ sequence }) => sequence.images === undefined)) return {};
  return batchImages(
    items.map(({ sequence, start, count }) => ({
      start,
      count,
      images: sequence.images?.ofRows(start, count),
    })),
  );
}

function sizesOf(items: readonly StepItem[]): { blocks: number; logitRows: number; stateRows: number } {
  let blocks = 0;
  let logitRows = 0;
  let stateRows = 0;
  for (const { sequence, samples, draft, states, scores } of items) {
    blocks += sequence.blocks.length;
    logitRows += Number(samples) + draft.tokens.length + scores[1] - scores[0];
    stateRows += states[1] - states[0];
  }
  return { blocks, logitRows, stateRows };
}
