import { describe, expect, it } from 'vitest';
import { ExpectedWaits } from './expected-waits.ts';

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
