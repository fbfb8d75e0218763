import { describe, expect, it } from 'vitest';
import { demanding, jainIndex, machine, modest, simulateTenants, type Tenant } from './tenants.ts';

describe('ten kinds of tenants', () => {
  it.each([12, 24, 64])(
    'get alike of a machine that all want whole, with %i lanes, and those that want little get all of it',
    (maxBatchSize) => {
      const settings = { ...machine, maxBatchSize, warmUpMs: 60_000, measuredMs: 300_000 };
      const results = simulateTenants([...demanding, ...modest], settings);
      const work = results.slice(0, demanding.length).map((result) => result.work);
      expect(jainIndex(work), JSON.stringify(work)).toBeGreaterThanOrEqual(0.95);
      const [single] = results.slice(demanding.length);
      const asked = settings.measuredMs / 7000;
      expect(single?.finished).toBeGreaterThanOrEqual(Math.floor(asked) - 1);
      const waited = [...(single?.stepsWaited ?? [])].sort((a, b) => a - b);
      expect(waited[Math.floor(0.9 * waited.length)]).toBeLessThanOrEqual(1);
    },
  );
});

describe('a single request', () => {
  const single: Tenant = {
    name: 'single',
    promptTokens: 200,
    answerTokens: 10,
    burst: { requests: 1, everyMs: 9000 },
  };
  const batch = (promptTokens: number, answerTokens: number, priority: 1 | 2): Tenant => ({
    name: 'batch',
    promptTokens,
    answerTokens,
    concurrency: 500,
    priority,
  });

  it.each([
    ['short answers', batch(300, 20, 1)],
    ['long answers', batch(30, 800, 1)],
    ['long prompts', batch(3000, 20, 1)],
    ['LOW lines', batch(500, 300, 2)],
  ])('of one account is admitted in the next step beside a batch of another: %s', (_, flood) => {
    const [, result] = simulateTenants([flood, single], { ...machine, warmUpMs: 0, measuredMs: 240_000 });
    expect(result?.stepsWaited.length).toBeGreaterThan(24);
    expect(Math.max(...(result?.stepsWaited ?? []))).toBe(0);
  });
});
