// A disk that does not answer costs a request what it waits, and nothing else.

import { describe, expect, it } from 'vitest';
import { prompt, SteppedEngine } from '../property/stepped-engine.ts';
import { UncertainDisk } from '../property/uncertain-disk.ts';

const budget = { kind: 'adaptive', targetStepMs: 100, loneStepMs: 100, maxStepTokens: 64 } as const;
const options = { blockCount: 32, budget, hostBytes: 0 };
const request = { prompt: prompt(300), newTokens: 5, ignoreEnd: true };

async function answered(disk: UncertainDisk) {
  const engine = new SteppedEngine({ ...options, disk });
  await expect.poll(() => engine.engine.stats(0).tiers?.disk).toBeDefined();
  const sequence = engine.submit(request);
  await engine.drain();
  engine.checkOutputs();
  const { tiers } = engine.engine.stats(0);
  await engine.engine.closeTiers(1000);
  return { tiers, ms: engine.nowMs, cachedTokens: engine.finishOf(sequence)?.cachedTokens };
}

describe('a prompt that lies on a disk', () => {
  it('is computed where the disk does not answer in the time that computing takes and a second', async () => {
    const disk = new UncertainDisk({ seed: 1, loses: 0, refuses: 0, hangs: 100 });
    const first = await answered(disk);
    expect(first.tiers?.loads).toBe(0);
    const again = await answered(disk);
    expect([again.tiers?.loads, again.tiers?.failedLoads, again.cachedTokens]).toEqual([1, 1, 0]);
    const waitedMs = again.ms - first.ms;
    expect(waitedMs).toBeGreaterThan(1000);
    expect(waitedMs).toBeLessThan(2000);
  });

  it('comes up from one that does', async () => {
    const disk = new UncertainDisk({ seed: 1, loses: 0, refuses: 0, hangs: 0 });
    await answered(disk);
    const again = await answered(disk);
    expect([again.tiers?.loads, again.tiers?.failedLoads, again.cachedTokens]).toEqual([1, 0, 288]);
  });
});
