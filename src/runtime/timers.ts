// Timers for any duration, and time limits of promises.

import { type Clock, nodeClock, type Timer } from './clock.ts';

/** Node's timers fire at once beyond this, about 25 days. */
const LONGEST_MS = 2 ** 31 - 1;

export interface LongTimer {
  cancel(): void;
}

/** Runs once, never for an infinite duration. Does not keep the process alive. */
export function runAfter(durationMs: number, run: () => void): LongTimer {
  let timer: NodeJS.Timeout | undefined;
  const wait = (leftMs: number) => {
    if (leftMs === Number.POSITIVE_INFINITY) return;
    const stageMs = Math.min(leftMs, LONGEST_MS);
    timer = setTimeout(() => (leftMs > stageMs ? wait(leftMs - stageMs) : run()), stageMs);
    timer.unref();
  };
  wait(durationMs);
  return { cancel: () => clearTimeout(timer) };
}

export async function within<Value>(
  promise: Promise<Value>,
  limitMs: number,
  clock: Clock = nodeClock,
): Promise<Value> {
  let timer: Timer | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = clock.after(limitMs, () => reject(new Error(`no answer within ${limitMs} ms`)));
  });
  try {
    return await Promise.race([promise, late]);
  } finally {
    timer?.end();
  }
}

/** What the promise gives, unless the signal comes first; whatever it gives then is handed to `late`. */
export async function orAbort<Value>(
  promise: Promise<Value>,
  signal: AbortSignal,
  late?: (value: Value) => void,
): Promise<Value> {
  if (signal.aborted) {
    promise.then(late, () => {});
    throw signal.reason;
  }
  let abort: (() => void) | undefined;
  const aborted = new Promise<never>((_, reject) => {
    abort = () => {
      promise.then(late, () => {});
      reject(signal.reason);
    };
    signal.addEventListener('abort', abort, { once: true });
  });
  try {
    return await Promise.race([promise, aborted]);
  } finally {
    if (abort !== undefined) signal.removeEventListener('abort', abort);
  }
}
