// The plan of the step after the one that is computed, as far as it can be known before that one's tokens are.

import { BLOCK_TOKENS } from '../../compute/backend.ts';
import type { BlockTables } from '../cache/block-tables.ts';
import { noDraft } from './draft.ts';
import type { StepItem, StepPlan } from './step-plan.ts';

/** One more token of every sequence. Undefined where one samples none, ends for its length, or has no block for it. */
export function foreseen(items: readonly StepItem[], tables: BlockTables): StepPlan | undefined {
  const next: StepItem[] = [];
  let attended = 0;
  for (const item of items) {
    const start = item.start + item.count;
    if (!goesOn(item) || !makeRoom(item, tables)) return undefined;
    next.push({ ...item, start, count: 1, draft: noDraft });
    attended += start + 1;
  }
  const load = { tokens: items.length, sequences: items.length, attended };
  return { items: next, admitted: [], loading: [], loaded: [], preempted: [], load };
}

/** Whether a plan is just what was foreseen. */
export function isForeseen({ items }: StepPlan, { items: expected }: StepPlan): boolean {
  return (
    items.length === expected.length &&
    items.every(({ sequence, start, count }, index) => {
      const other = expected[index] as StepItem;
      return sequence === other.sequence && start === other.start && count === 1;
    })
  );
}

function goesOn({ sequence, samples, draft }: StepItem): boolean {
  const isLast = sequence.length + 1 === sequence.maxTokens;
  return samples && !isLast && draft.tokens.length === 0 && sequence.state === 'running';
}

/** As for drafts: within its own blocks, or in one that holds nothing. */
function makeRoom({ sequence, start, count }: StepItem, tables: BlockTables): boolean {
  if (sequence.blocks.length * BLOCK_TOKENS > start + count) return true;
  const { freeCount, cachedFreeCount } = tables.pool;
  if (freeCount <= cachedFreeCount || !tables.fitsShareWithoutEviction(sequence)) return false;
  return tables.grow(sequence, count + 1) === count + 1;
}
