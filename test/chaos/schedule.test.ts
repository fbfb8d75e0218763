import { describe, expect, it } from 'vitest';
import { Chance } from './chance.ts';
import { schedule } from './schedule.ts';

const MINUTE_MS = 60_000;
const planOf = (seed: number, watchdog = true) => schedule(new Chance(seed), MINUTE_MS, { watchdog });

describe('a schedule', () => {
  it('is the same for the same seed and differs for another', () => {
    expect(planOf(1)).toEqual(planOf(1));
    expect(planOf(1)).not.toEqual(planOf(2));
  });

  it('has some of everything within a minute, in order, and ends in time', () => {
    const planned = planOf(3);
    expect(new Set(planned.map(({ disturbance }) => disturbance.kind)).size).toBe(16);
    const times = planned.map(({ atMs }) => atMs);
    expect(times).toEqual(times.toSorted((a, b) => a - b));
    expect(times.every((atMs) => atMs >= 0 && atMs < MINUTE_MS)).toBe(true);
  });

  it('leaves no engine hanging where nothing would replace it', () => {
    expect(planOf(3, false).some(({ disturbance }) => disturbance.kind === 'hang an engine')).toBe(false);
  });
});
