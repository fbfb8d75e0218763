// Measures steps on this machine with this model before anybody asks: how long one should take, where nobody said, and what
// rows cost in addition to the first one.

import type { Backend } from '../compute/backend.ts';
import { buildBatch } from '../compute/batch.ts';
import { ownSlot } from '../compute/batch-states.ts';
import { greedyParameters } from '../sampling/parameters.ts';
import type { BudgetOptions } from './scheduler/token-budget.ts';
import type { DraftTime } from './speculation/draft-lengths.ts';
import type { RowTime } from './speculation/row-costs.ts';

const TRIALS = 5;
/** A step that also prefills may take this many times as long as one that decodes a single token. */
const DECODE_STEPS = 4;
/** Below this nobody sees a difference, and prefill would be cut into crumbs. */
const LEAST_MS = 25;
/** Where nobody decodes, only who comes next waits for a step, and larger chunks compute a prompt faster. */
const LONE_MS = 100;
const MOST_STEP_TOKENS = 2048;
/** Kernels take rows in fours or eights; one block holds the last of them. */
const ROWS = [1, 4, 8, 16, 32] as const;
const ROW_TRIALS = 2;
/** Short steps are tried more often: what disturbs the machine is longer than they are. */
const MOST_ROW_TRIALS = 8;
const ROW_TRIALS_MS = 20;
/** Drafts of one token and of several: what a draft costs, and what each token of it. */
const ROUNDS = [1, 4] as const;
const DRAFT_TRIALS = 3;
/** Where the short ones take longer altogether, the long ones are not measured. */
const DRAFTS_MS = 300;
/** Limits of the measurement, in milliseconds and in steps of one row: beyond them rows are too dear for drafts. */
const ROWS_MS = 1000;
const ROWS_STEPS = 6;

/** What steps of several rows take, each with logits. What they leave in block 0 and state slot 0 is never read. */
export async function measuredRows(backend: Backend, onTrial: () => void = () => {}): Promise<RowTime[]> {
  const times: RowTime[] = [];
  let spentMs = 0;
  for (const rows of ROWS) {
    if (spentMs > Math.max(ROWS_MS, ROWS_STEPS * (times[0]?.ms ?? 0))) break;
    const sequence = {
      tokens: Array<number>(rows).fill(0),
      start: 0,
      blocks: [0],
      wantLogits: 'all',
    } as const;
    const batch = buildBatch([{ ...sequence, ...stateOf(backend, sequence) }]);
    let least = Number.POSITIVE_INFINITY;
    const beforeMs = spentMs;
    const isShort = () => spentMs - beforeMs < ROW_TRIALS_MS;
    for (let trial = 0; trial < ROW_TRIALS || (trial < MOST_ROW_TRIALS && isShort()); trial++) {
      const started = performance.now();
      await backend.step(batch);
      const ms = performance.now() - started;
      // What disturbs a step only makes it longer.
      least = Math.min(least, ms);
      spentMs += ms;
      onTrial();
    }
    times.push({ rows, ms: least });
  }
  return times;
}

/** What drafts of the model's own MTP head take; undefined where it has none. After steps of several rows, whose states they go on from. */
export async function measuredDrafts(backend: Backend): Promise<DraftTime[] | undefined> {
  if (backend.draft === undefined) return undefined;
  const batch = buildBatch([{ tokens: [0], start: 1, blocks: [0], wantLogits: 'none' }]);
  const times: DraftTime[] = [];
  let spentMs = 0;
  for (const rounds of ROUNDS) {
    if (spentMs > DRAFTS_MS) break;
    const rows = Array.from({ length: rounds }, (_, round) => ({
      parameters: greedyParameters,
      position: 2 + round,
      choice: 0,
      forbidden: [],
    }));
    let least = Number.POSITIVE_INFINITY;
    for (let trial = 0; trial < DRAFT_TRIALS; trial++) {
      const started = performance.now();
      await backend.draft(batch, [rows], Number.NEGATIVE_INFINITY);
      const ms = performance.now() - started;
      least = Math.min(least, ms);
      spentMs += ms;
    }
    times.push({ rounds, ms: least });
  }
  return times;
}

function stateOf(backend: Backend, sequence: Parameters<typeof ownSlot>[0]) {
  return backend.stateSlots === undefined ? {} : { state: ownSlot(sequence, 0) };
}

/** Measures single-token steps and reports each; what they leave in block 0 and state slot 0 is never read. */
export async function calibratedBudget(
  backend: Backend,
  onTrial: () => void = () => {},
): Promise<BudgetOptions> {
  const sequence = { tokens: [0], start: 0, blocks: [0], wantLogits: 'last' } as const;
  const batch = buildBatch([{ ...sequence, ...stateOf(backend, sequence) }]);
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
