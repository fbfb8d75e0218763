// Chooses how long a step should take on this machine with this model, where nobody said.

import type { Backend } from '../compute/backend.ts';
import { buildBatch } from '../compute/batch.ts';
import { ownSlot } from '../compute/batch-memories.ts';
import type { BudgetOptions } from './scheduler/token-budget.ts';

const TRIALS = 5;
/** A step that also prefills may take this many times as long as one that decodes a single token. */
const DECODE_STEPS = 4;
/** Below this nobody sees a difference, and prefill would be cut into crumbs. */
const LEAST_MS = 25;
/** Where nobody decodes, only who comes next waits for a step, and larger chunks compute a prompt faster. */
const LONE_MS = 100;
const MOST_STEP_TOKENS = 2048;

/** Measures single-token steps and tells of each; what they leave in block 0 and memory 0 is never read. */
export async function calibratedBudget(
  backend: Backend,
  onTrial: () => void = () => {},
): Promise<BudgetOptions> {
  const sequence = { tokens: [0], start: 0, blocks: [0], wantLogits: 'last' } as const;
  const memory = backend.memorySlots === undefined ? {} : { memory: ownSlot(sequence, 0) };
  const batch = buildBatch([{ ...sequence, ...memory }]);
  const times: number[] = [];
  for (let trial = 0; trial < TRIALS; trial++) {
    const started = performance.now();
    await backend.step(batch);
    times.push(performance.now() - started);
    onTrial();
  }
  const median = times.sort((a, b) => a - b)[Math.floor(TRIALS / 2)] as number;
  const targetStepMs = Math.max(LEAST_MS, DECODE_STEPS * median);
  const loneStepMs = Math.max(LONE_MS, targetStepMs);
  return { kind: 'adaptive', targetStepMs, loneStepMs, maxStepTokens: MOST_STEP_TOKENS };
}
