import { describe, expect, it } from 'vitest';
import { ExpectedWaits, SlidingPercentiles } from './recent-measurements.ts';

describe('percentiles of the last minute', () => {
  it('are within 2.5 % of the true ones', () => {
    const percentiles = new SlidingPercentiles();
    for (let n = 1; n <= 1000; n++) percentiles.add(n, n * 10);
    const { p50, p95, p99 } = percentiles.read(10_000) ?? { p50: 0, p95: 0, p99: 0 };
    for (const [found, true_] of [
      [p50, 500],
      [p95, 950],
      [p99, 990],
    ] as const) {
      expect(Math.abs(found / true_ - 1)).toBeLessThan(0.03);
    }
  });

  it('forget what is older, and say nothing where there is nothing', () => {
    const percentiles = new SlidingPercentiles();
    expect(percentiles.read(0)).toBeUndefined();
    percentiles.add(1000, 0);
    percentiles.add(10, 30_000);
    expect(percentiles.read(59_000)?.p99).toBeGreaterThan(900);
    expect(percentiles.read(61_000)?.p99).toBeLessThan(11);
    expect(percentiles.read(200_000)).toBeUndefined();
  });

  it('take anything', () => {
    const percentiles = new SlidingPercentiles();
    for (const ms of [0, -1, 1e12, Number.POSITIVE_INFINITY, 1e-9]) percentiles.add(ms, 0);
    expect(percentiles.read(0)?.p50).toBeGreaterThan(0);
  });
});

describe('the wait of somebody who comes now', () => {
  it('is unknown where nothing was measured of late', () => {
    const waits = new ExpectedWaits();
    expect(waits.expectedMs('normal', 3, 0)).toBeUndefined();
    waits.begun({ atMs: 0, tier: 'normal', waitedMs: 5 });
    expect(waits.expectedMs('normal', 0, 1000)).toBe(5);
    expect(waits.expectedMs('high', 0, 1000)).toBeUndefined();
    expect(waits.expectedMs('normal', 0, 40_000)).toBeUndefined();
  });

  it('goes by how fast others began, where some wait', () => {
    const waits = new ExpectedWaits();
    for (let n = 0; n < 10; n++) waits.begun({ atMs: 1000 * n, tier: 'low', waitedMs: 1 });
    expect(waits.expectedMs('low', 4, 10_000)).toBe(5000);
  });
});
