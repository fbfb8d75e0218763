// The time that this process ran. Where it was held up, by load, by a signal or with its whole machine, that time is left
// out: others were not silent then, they were not heard.

import type { Clock, Timer } from '../runtime/clock.ts';

const TICK_MS = 250;
/** A tick that comes this late was held up. */
const LATE_MS = 1000;

export class RunningClock {
  readonly #monotonicMs: () => number;
  readonly #timer: Timer;
  #lastMs: number;
  #missedMs = 0;

  constructor({ monotonicMs, every }: Pick<Clock, 'monotonicMs' | 'every'>) {
    this.#monotonicMs = monotonicMs;
    this.#lastMs = monotonicMs();
    this.#timer = every(TICK_MS, this.nowMs).unref();
  }

  readonly nowMs = (): number => {
    const monotonicMs = this.#monotonicMs();
    const passedMs = monotonicMs - this.#lastMs;
    this.#lastMs = monotonicMs;
    if (passedMs > LATE_MS) this.#missedMs += passedMs - TICK_MS;
    return monotonicMs - this.#missedMs;
  };

  close(): void {
    this.#timer.end();
  }
}
