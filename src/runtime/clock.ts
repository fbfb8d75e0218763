// What time a process has and what runs later, passed to whatever needs it, so that a fleet can run in simulated time.

export interface Timer {
  end(): void;
  /** It does not keep the process alive. */
  unref(): Timer;
}

export interface Clock {
  /** In milliseconds since 1970, as this machine has it: it may jump, and differs from those of other machines. */
  readonly wallMs: () => number;
  /** In milliseconds since an unknown moment; never goes back. */
  readonly monotonicMs: () => number;
  after(durationMs: number, run: () => void): Timer;
  every(periodMs: number, run: () => void): Timer;
  /** Runs after what is ready to run now. */
  soon(run: () => void): void;
}

/** Unpredictable where names and keys depend on it. */
export type RandomBytes = (count: number) => Uint8Array;

export const nodeClock: Clock = {
  wallMs: () => Date.now(),
  monotonicMs: () => performance.now(),
  after: (durationMs, run) => {
    const timer = setTimeout(run, durationMs);
    return timerOf(timer, () => clearTimeout(timer));
  },
  every: (periodMs, run) => {
    const timer = setInterval(run, periodMs);
    return timerOf(timer, () => clearInterval(timer));
  },
  soon: (run) => void setImmediate(run),
};

function timerOf(timer: NodeJS.Timeout, end: () => void): Timer {
  const own: Timer = {
    end,
    unref: () => {
      timer.unref();
      return own;
    },
  };
  return own;
}

export function sleep(clock: Clock, durationMs: number): Promise<void> {
  return new Promise((resolve) => void clock.after(durationMs, resolve));
}
