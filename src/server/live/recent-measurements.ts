// Recent measurements, bounded whatever is measured. Percentiles of the last minute, within 2.5 %: counts in bins that grow
// by 5 %, kept for slots of five seconds. And an estimate of how long a request that arrives now would wait.

import type { Tier } from '../../store/key-record.ts';
import type { Percentiles } from './live-event.ts';

const SLOT_MS = 5000;
const SLOTS = 12;
const LEAST_MS = 0.05;
const GROWTH = Math.log(1.05);
const BINS = Math.ceil(Math.log(3_600_000 / LEAST_MS) / GROWTH);

export class SlidingPercentiles {
  readonly #counts = Array.from({ length: SLOTS }, () => new Uint32Array(BINS));
  readonly #slotOf = new Float64Array(SLOTS).fill(-1);

  add(ms: number, nowMs: number): void {
    const slot = Math.floor(nowMs / SLOT_MS);
    const at = slot % SLOTS;
    const counts = this.#counts[at] as Uint32Array;
    if (this.#slotOf[at] !== slot) {
      counts.fill(0);
      this.#slotOf[at] = slot;
    }
    const bin = ms <= LEAST_MS ? 0 : Math.min(BINS - 1, Math.floor(Math.log(ms / LEAST_MS) / GROWTH));
    counts[bin] = (counts[bin] as number) + 1;
  }

  read(nowMs: number): Percentiles | undefined {
    const oldest = Math.floor(nowMs / SLOT_MS) - SLOTS + 1;
    const sums = new Float64Array(BINS);
    let total = 0;
    for (const [at, counts] of this.#counts.entries()) {
      if ((this.#slotOf[at] as number) < oldest) continue;
      for (let bin = 0; bin < BINS; bin++) {
        sums[bin] = (sums[bin] as number) + (counts[bin] as number);
        total += counts[bin] as number;
      }
    }
    if (total === 0) return undefined;
    return {
      p50: quantile(sums, 0.5 * total),
      p95: quantile(sums, 0.95 * total),
      p99: quantile(sums, 0.99 * total),
    };
  }
}

/** The middle of the bin that holds the value of this rank, to three digits. */
function quantile(sums: Float64Array, rank: number): number {
  let passed = 0;
  for (let bin = 0; bin < sums.length; bin++) {
    passed += sums[bin] as number;
    if (passed >= rank) return Number((LEAST_MS * Math.exp((bin + 0.5) * GROWTH)).toPrecision(3));
  }
  return 0;
}

interface Begun {
  readonly atMs: number;
  readonly tier: Tier;
  readonly waitedMs: number;
}

const WINDOW_MS = 30_000;
const MOST = 256;
/** Where no request waits, the median of this many recent waits is the estimate. */
const LATEST = 9;

export class ExpectedWaits {
  #begun: Begun[] = [];

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
