// How much of a per-minute limit is used: a token bucket, kept as what is used so that a new limit takes hold at
// once. It drains steadily, a full limit in a minute, so a rested key may spend a minute's worth in one burst.

// In units of 1/60000, a limit of n a minute drains n units each millisecond: whole numbers, so waits are exact.
const UNITS = 60_000;

export class MinuteBucket {
  #used: number;
  #drainedMs: number;

  /** With so many 1/60000 of it used at that time. */
  constructor(used = 0, drainedMs = 0) {
    this.#used = used;
    this.#drainedMs = drainedMs;
  }

  /** Sets how many 1/60000 of it were used at that time. */
  restore(used: number, drainedMs: number): void {
    this.#used = used;
    this.#drainedMs = drainedMs;
  }

  /** Milliseconds until that cost fits. One above the whole limit fits an unused bucket, else it never would. */
  waitMs(cost: number, limit: number, nowMs: number): number {
    this.#drain(limit, nowMs);
    const excess = this.#used + Math.min(cost, limit) * UNITS - limit * UNITS;
    return excess <= 0 ? 0 : Math.ceil(excess / limit);
  }

  /** A negative cost gives back. */
  charge(cost: number, limit: number, nowMs: number): void {
    this.#drain(limit, nowMs);
    this.#used = Math.max(0, this.#used + cost * UNITS);
  }

  remaining(limit: number, nowMs: number): number {
    this.#drain(limit, nowMs);
    return Math.max(0, Math.floor(limit - this.#used / UNITS));
  }

  /** Milliseconds until nothing is used. */
  resetMs(limit: number, nowMs: number): number {
    this.#drain(limit, nowMs);
    return Math.ceil(this.#used / limit);
  }

  /** A clock that was set back drains nothing, and time goes on from there. */
  #drain(limit: number, nowMs: number): void {
    const elapsedMs = Math.max(0, nowMs - this.#drainedMs);
    this.#used = Math.max(0, this.#used - elapsedMs * limit);
    this.#drainedMs = nowMs;
  }
}
