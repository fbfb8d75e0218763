// Threads of a store share the processor with threads that compute, and have less to lose by waiting: they take what those leave.

import { constants, setPriority } from 'node:os';
import { loadNativeAddon } from '../runtime/native-addon.ts';

interface PriorityAddon {
  /** Of the calling thread; false where the system refuses. */
  lowerThreadPriority(): boolean;
}

/** Of the calling thread. Without the addon Linux alone gives threads priorities of their own: elsewhere it would be the whole process. */
export function lowerPriority(): void {
  const load = loadNativeAddon<PriorityAddon>();
  if (load.available && load.addon.lowerThreadPriority()) return;
  if (process.platform !== 'linux') return;
  try {
    setPriority(constants.priority.PRIORITY_LOW);
  } catch {
    // A sandbox may forbid it: then they compete.
  }
}
