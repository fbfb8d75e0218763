// Estimates how long a request that arrives now would wait for its first step, from recent waits.

import type { Tier } from '../../store/key-record.ts';

interface Begun {
  readonly atMs: number;
  readonly tier: Tier;
  readonly waitedMs: number;
}

/** Older waits say nothing about the present. */
const WINDOW_MS = 30_000;
const MOST = 256;
/** Where no request waits, the median of this many recent waits is the estimate. */
const LATEST = 9;

export class ExpectedWaits {
  #begun: Begun[] = [];

  /** Records that an engine began with a request. */
  begun(one: Begun): void {
    this.#begun.push(one);
    if (this.#begun.length > MOST) this.#begun.shift();
  }

  /**
   * `ahead`: waiting requests that go first. They are expected to begin at the recent rate; where there are none, the wait is
   * expected to be as usual. Undefined where nothing was measured.
   */
  expectedMs(tier: Tier, ahead: number, nowMs: number): number | undefined {
    this.#begun = this.#begun.filter(({ atMs }) => nowMs - atMs <= WINDOW_MS);
    const [first] = this.#begun;
    if (first === undefined) return undefined;
    if (ahead > 0) return ((ahead + 1) * Math.max(1, nowMs - first.atMs)) / this.#begun.length;
    const waits = this.#begun.filter((one) => one.tier === tier).slice(-LATEST);
    const sorted = waits.map(({ waitedMs }) => waitedMs).sort((a, b) => a - b);
    return sorted[Math.floor(sorted.length / 2)];
  }
}
