// How much of a per-minute limit is used: a token bucket, kept as what is used so that a new limit takes hold at
// once. It drains steadily, a full limit in a minute, so a rested key may spend a minute's worth in one burst.
// What is held drains in the order it came; only what has not drained can be given back, since a key would else get
// the same minute twice.

// In units of 1/60000, a limit of n a minute drains n units each millisecond: whole numbers, so waits are exact.
const UNITS = 60_000;

/** A part of what is used that may be given back; in units. */
export interface Hold {
  readonly size: number;
  /** How much has drained of the bucket when all of it has. */
  end: number;
}

export class MinuteBucket {
  #used: number;
  #drainedMs: number;
  #drained = 0;
  readonly #holds = new Set<Hold>();

  constructor(used = 0, drainedMs = 0) {
    this.#used = used;
    this.#drainedMs = drainedMs;
  }

  restore(used: number, drainedMs: number): void {
    this.#used = used;
    this.#drainedMs = drainedMs;
  }

  waitMs(cost: number, limit: number, nowMs: number): number {
    this.#drain(limit, nowMs);
    const excess = this.#used + cost * UNITS - limit * UNITS;
    return excess <= 0 ? 0 : Math.ceil(excess / limit);
  }

  charge(cost: number, limit: number, nowMs: number): void {
    this.#drain(limit, nowMs);
    this.#used += cost * UNITS;
  }

  hold(cost: number, limit: number, nowMs: number): Hold {
    this.charge(cost, limit, nowMs);
    const hold = { size: cost * UNITS, end: this.#drained + this.#used };
    this.#holds.add(hold);
    return hold;
  }

  release(hold: Hold, unused: number, limit: number, nowMs: number): void {
    this.#drain(limit, nowMs);
    this.#holds.delete(hold);
    const undrained = Math.min(hold.size, Math.max(0, hold.end - this.#drained));
    const given = Math.min(unused * UNITS, undrained);
    this.#used -= given;
    // Those that came after it drain sooner.
    for (const other of this.#holds) if (other.end > hold.end) other.end -= given;
  }

  remaining(limit: number, nowMs: number): number {
    this.#drain(limit, nowMs);
    return Math.max(0, Math.floor(limit - this.#used / UNITS));
  }

  resetMs(limit: number, nowMs: number): number {
    this.#drain(limit, nowMs);
    return Math.ceil(this.#used / limit);
  }

  /** A clock that was set back drains nothing; time continues from there. */
  #drain(limit: number, nowMs: number): void {
    const elapsedMs = Math.max(0, nowMs - this.#drainedMs);
    const drained = Math.min(this.#used, elapsedMs * limit);
    this.#used -= drained;
    this.#drained += drained;
    this.#drainedMs = nowMs;
  }
}
