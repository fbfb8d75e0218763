import { expect, it } from 'vitest';
import { Limiter } from './limiter.ts';

const NOON_MS = Date.UTC(2026, 0, 31, 12);

it('what is limited apart has minutes and places of its own, and the same day', () => {
  const limiter = new Limiter();
  const apart = limiter.apart();
  const limits = { requestsPerMinute: 1, maxConcurrent: 1, dailyTokens: 10 };
  const background = apart.admit('a', limits, NOON_MS);
  expect(apart.admit('a', limits, NOON_MS).ok).toBe(false);
  const awaited = limiter.admit('a', limits, NOON_MS);
  if (!background.ok || !awaited.ok) throw new Error('was refused');
  background.permit.settle(6, NOON_MS);
  awaited.permit.settle(4, NOON_MS);
  for (const one of [limiter, apart]) {
    expect(one.admit('a', { dailyTokens: 10 }, NOON_MS)).toMatchObject({ ok: false, kind: 'daily' });
  }
});
