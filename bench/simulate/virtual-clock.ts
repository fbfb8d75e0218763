// The clock of a simulated node: time passes as events of the queue happen.

import type { Clock, Timer } from '#src/runtime/clock.ts';
import type { EventQueue } from './event-queue.ts';

/** The time of the day does not matter: it is the same at all nodes. */
const EPOCH_MS = Date.UTC(2026, 0, 1);

export function virtualClock(events: EventQueue): Clock {
  const after = (durationMs: number, run: () => void): Timer => {
    let isEnded = false;
    events.at(events.nowMs + durationMs, () => isEnded || run());
    return timerOf(() => {
      isEnded = true;
    });
  };
  const every = (periodMs: number, run: () => void): Timer => {
    let isEnded = false;
    const next = () =>
      events.at(events.nowMs + periodMs, () => {
        if (isEnded) return;
        run();
        next();
      });
    next();
    return timerOf(() => {
      isEnded = true;
    });
  };
  return {
    wallMs: () => EPOCH_MS + events.nowMs,
    monotonicMs: () => events.nowMs,
    after,
    every,
    soon: (run) => events.at(events.nowMs, run),
  };
}

function timerOf(end: () => void): Timer {
  const timer: Timer = { end, unref: () => timer };
  return timer;
}
