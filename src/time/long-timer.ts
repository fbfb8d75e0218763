// Timers for any duration. Node's own fire at once beyond 2^31 - 1 milliseconds, about 25 days.

const LONGEST_MS = 2 ** 31 - 1;

export interface LongTimer {
  cancel(): void;
}

/** Runs once after so long, never for an infinite time. It does not keep the process alive. */
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
