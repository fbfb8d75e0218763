// Whether a fleet takes a request: not where even the best worker would keep it waiting too long. A refusal is a value, and
// says when it is worth asking again.

import type { Priority } from '../../engine/scheduler/sequence.ts';
import type { ByPriority } from './heartbeat.ts';

/** Longest expected waits before a prompt begins to be computed; what may take its time may wait longer. */
export const DEFAULT_MAX_WAIT_MS: ByPriority = [60_000, 60_000, 600_000];

export interface Refusal {
  readonly kind: 'refused';
  readonly expectedWaitMs: number;
  /** Whole seconds, at least one. */
  readonly retryAfterSeconds: number;
}

/** Undefined where it is taken. A queue shrinks by a second a second, so what is beyond the limit is gone after that time. */
export function refuse(waitMs: number, priority: Priority, maxWaitMs: ByPriority): Refusal | undefined {
  const beyondMs = waitMs - maxWaitMs[priority];
  if (beyondMs <= 0) return undefined;
  return {
    kind: 'refused',
    expectedWaitMs: waitMs,
    retryAfterSeconds: Math.max(1, Math.ceil(beyondMs / 1000)),
  };
}
