// The step after the one that a device computes, prepared meanwhile: its batch and how it samples, all but the tokens that it
// begins with. So the device rests for a shorter time between the two.

import type { Backend, StepResult } from '../compute/backend.ts';
import type { SampleRow } from '../sampling/sample-row.ts';
import { OpenAnswer } from './open-request.ts';
import type { OpenRequests } from './open-requests.ts';
import { planBatch } from './plan-batch.ts';
import { isForeseen } from './scheduler/foreseen-plan.ts';
import type { Scheduler } from './scheduler/scheduler.ts';
import type { StepPlan } from './scheduler/step-plan.ts';

export interface PreparedStep {
  /** Begins a step that is planned as was foreseen; undefined where another is. */
  start(plan: StepPlan): Promise<StepResult> | undefined;
}

/** While `plan` is computed. Undefined where what follows depends on its tokens, or the backend prepares nothing. */
export function prepareNext(
  plan: StepPlan,
  { backend, scheduler, requests }: { backend: Backend; scheduler: Scheduler; requests: OpenRequests },
): PreparedStep | undefined {
  if (backend.prepareStep === undefined) return undefined;
  const rows = rowsAfter(plan, requests);
  const next = rows && scheduler.foresee(plan);
  const begin = next && backend.prepareStep(planBatch(next), rows);
  if (next === undefined || begin === undefined) return undefined;
  return { start: (planned) => (isForeseen(planned, next) ? begin(firstTokens(planned)) : undefined) };
}

function rowsAfter({ items }: StepPlan, requests: OpenRequests): SampleRow[] | undefined {
  const rows: SampleRow[] = [];
  for (const { sequence } of items) {
    const open = requests.of(sequence);
    const row = open instanceof OpenAnswer ? open.rowAfterNext() : undefined;
    if (row === undefined) return undefined;
    rows.push(row);
  }
  return rows;
}

function firstTokens({ items }: StepPlan): Int32Array {
  return Int32Array.from(items, ({ sequence, start }) => sequence.storage[start] as number);
}
