// Forgets the lines of a batch in small steps, since statements run on the thread that serves requests.

import { setImmediate as turn } from 'node:timers/promises';
import type { BatchLines } from '../../store/batch-lines.ts';

const LINES_AT_ONCE = 128;

export async function forgetLines(lines: BatchLines, batchId: string): Promise<void> {
  while (await lines.forget(batchId, LINES_AT_ONCE)) await turn();
}
