// How long somebody who came now would wait for an engine to begin, by what was measured of late.

import type { Tier } from '../../store/key-record.ts';

interface Begun {
  readonly atMs: number;
  readonly tier: Tier;
  readonly waitedMs: number;
}

/** What is older says nothing about the present. */
const WINDOW_MS = 30_000;
const MOST = 256;
/** So many waits of late are looked at where nobody waits. */
const LATEST = 9;

export class ExpectedWaits {
  #begun: Begun[] = [];

  /** An engine began with a request that waited for so long. */
  begun(one: Begun): void {
    this.#begun.push(one);
    if (this.#begun.length > MOST) this.#begun.shift();
  }

  /**
   * `ahead`: those that wait and go first. They begin one after the other as fast as others did; where there are none,
   * the wait is what it usually was. Undefined where nothing was measured.
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
