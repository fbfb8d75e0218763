import { describe, expect, it } from 'vitest';
import type { ModelPool } from '../pool/model-pool.ts';
import { HealthCheck } from './health.ts';

/** A pool with one engine that answers what it is told to. */
function checkOf(
  stats: () => Promise<{ steps: number; running: object[] }>,
  nowMs: () => number,
): HealthCheck {
  const engine = { stats: async () => ({ queues: [], ...(await stats()) }) };
  const pool = { loaded: () => [{ name: 'm', engine }] } as unknown as ModelPool;
  return new HealthCheck(pool, 1000, nowMs);
}

describe('health', () => {
  it('fails where sequences run and no step ends, and recovers with the next step', async () => {
    let nowMs = 0;
    let steps = 5;
    let running = [{}];
    const check = checkOf(
      async () => ({ steps, running }),
      () => nowMs,
    );
    expect((await check.check()).ok).toBe(true);
    nowMs = 999;
    expect((await check.check()).ok).toBe(true);
    nowMs = 1000;
    const stalled = await check.check();
    expect(stalled.ok).toBe(false);
    expect(stalled.engines[0]?.problem).toContain('no step');
    steps = 6;
    expect((await check.check()).ok).toBe(true);
    running = [];
    nowMs = 50_000;
    expect((await check.check()).ok).toBe(true);
  });

  it('does not blame an engine for having been idle', async () => {
    let nowMs = 0;
    let running: object[] = [];
    const check = checkOf(
      async () => ({ steps: 5, running }),
      () => nowMs,
    );
    await check.check();
    nowMs = 60_000;
    running = [{}];
    expect((await check.check()).ok).toBe(true);
  });

  it('fails where the engine cannot be asked', async () => {
    const check = checkOf(
      () => Promise.reject(new Error('the engine is restarting')),
      () => 0,
    );
    expect(await check.check()).toMatchObject({
      ok: false,
      engines: [{ problem: 'the engine is restarting' }],
    });
  });
});
