// Closes the parts of a server in order. Every step runs, whatever happened before it, within a limit; failures are logged.

import type { Logger } from 'pino';
import { messageOf } from '../runtime/error-message.ts';
import { runAfter } from '../runtime/timers.ts';

interface CloseStep {
  readonly what: string;
  readonly limitMs: number;
  readonly close: () => unknown;
}

export async function closeInOrder(
  steps: readonly CloseStep[],
  logger: Pick<Logger, 'error'>,
): Promise<void> {
  for (const { what, limitMs, close } of steps) {
    try {
      await inTime(close, limitMs);
    } catch (error) {
      logger.error({ err: error }, `${what} could not be closed: ${messageOf(error)}`);
    }
  }
}

async function inTime(close: () => unknown, limitMs: number): Promise<void> {
  let cancel = () => {};
  const late = new Promise<never>((_, reject) => {
    const problem = new Error(`it took longer than ${limitMs} ms`);
    cancel = runAfter(limitMs, () => reject(problem)).cancel;
  });
  try {
    await Promise.race([close(), late]);
  } finally {
    cancel();
  }
}
