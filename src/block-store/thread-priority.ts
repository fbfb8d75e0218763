// Threads of a store share the processor with threads that compute, and have less to lose by waiting.

import { constants, setPriority } from 'node:os';

/** `writing`: nobody waits for it. `reading`: a request does, and others are computed meanwhile. */
const PRIORITIES = {
  writing: constants.priority.PRIORITY_LOW,
  reading: constants.priority.PRIORITY_BELOW_NORMAL,
};

/** Of the calling thread. Linux alone gives threads priorities of their own: elsewhere it would be that of the whole process. */
export function lowerPriority(work: keyof typeof PRIORITIES): void {
  if (process.platform !== 'linux') return;
  try {
    setPriority(PRIORITIES[work]);
  } catch {
    // A sandbox may forbid it: then they compete.
  }
}
