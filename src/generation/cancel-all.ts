// Cancels what is left of a request, part by part: where it had thousands of sequences, others are served in between.

import { setImmediate } from 'node:timers/promises';
import type { EngineHandle } from '../pool/engine-handle.ts';

const CANCELLED_AT_ONCE = 256;

export async function cancelAll(engine: Pick<EngineHandle, 'cancel'>, ids: Iterable<string>): Promise<void> {
  let count = 0;
  for (const id of ids) {
    engine.cancel(id);
    if (++count % CANCELLED_AT_ONCE === 0) await setImmediate();
  }
}
