import { describe, expect, it, vi } from 'vitest';
import type { ModelPool } from '../../pool/model-pool.ts';
import { HealthCheck } from './health.ts';

interface StandIn {
  stats: () => Promise<{ steps: number; running: object[] }>;
  failure?: string;
  direct?: boolean;
}

/** A pool with one engine that answers what it is told to. */
function checkOf({ stats, failure, direct = false }: StandIn, nowMs: () => number): HealthCheck {
  const engine = { failure, stats: async () => ({ queues: [], ...(await stats()) }) };
  const pool = { loaded: () => [{ name: 'm', engine, direct }] } as unknown as ModelPool;
  return new HealthCheck(pool, 1000, nowMs);
}

const idle = async () => ({ steps: 5, running: [] });

describe('an engine', () => {
  it('is stalled where sequences run and no step ends, and well with the next step', async () => {
    let nowMs = 0;
    let steps = 5;
    let running = [{}];
    const check = checkOf({ stats: async () => ({ steps, running }) }, () => nowMs);
    const state = async () => (await check.check())[0]?.state;
    expect(await state()).toBe('ok');
    nowMs = 999;
    expect(await state()).toBe('ok');
    nowMs = 1000;
    expect((await check.check())[0]).toMatchObject({
      state: 'stalled',
      problem: expect.stringContaining('no step'),
    });
    steps = 6;
    expect(await state()).toBe('ok');
    running = [];
    nowMs = 50_000;
    expect(await state()).toBe('ok');
  });

  it('is not blamed for having been idle', async () => {
    let nowMs = 0;
    let running: object[] = [];
    const check = checkOf({ stats: async () => ({ steps: 5, running }) }, () => nowMs);
    await check.check();
    nowMs = 60_000;
    running = [{}];
    expect(await check.check()).toMatchObject([{ state: 'ok' }]);
  });

  it('is restarting where it cannot be asked', async () => {
    const problem = 'the engine is restarting';
    const check = checkOf({ stats: () => Promise.reject(new Error(problem)) }, () => 0);
    expect(await check.check()).toEqual([{ model: 'm', state: 'restarting', problem }]);
    expect(await check.checkModel('m')).toMatchObject({ state: 'restarting' });
    expect(await check.checkModel('other')).toBeUndefined();
  });

  it('is silent where it does not answer, at the second look, and is looked at before a probe gives up', async () => {
    vi.useFakeTimers();
    try {
      let answers: (stats: { steps: number; running: object[] }) => void = () => {};
      const stats = () => new Promise<{ steps: number; running: object[] }>((resolve) => (answers = resolve));
      const check = checkOf({ stats }, () => Date.now());
      const look = async () => {
        const answer = check.check();
        await vi.advanceTimersByTimeAsync(900);
        return answer;
      };
      // A single answer may be late on a machine with much else to do.
      expect(await look()).toMatchObject([{ state: 'ok' }]);
      answers({ steps: 5, running: [] });
      await vi.advanceTimersByTimeAsync(5000);
      expect(await look()).toMatchObject([{ state: 'ok' }]);
      await vi.advanceTimersByTimeAsync(2000);
      expect(await look()).toMatchObject([{ state: 'silent' }]);
    } finally {
      vi.useRealTimers();
    }
  });

  it('has failed where it has given up, and says so where it serves without batching', async () => {
    const failed = checkOf({ stats: idle, failure: 'died five times' }, () => 0);
    expect(await failed.check()).toEqual([{ model: 'm', state: 'failed', problem: 'died five times' }]);
    expect(await checkOf({ stats: idle, direct: true }, () => 0).check()).toMatchObject([
      { state: 'direct' },
    ]);
  });
});
