import { describe, expect, it } from 'vitest';
import { Chance } from './chance.ts';
import { lives, schedule } from './schedule.ts';

const MINUTE_MS = 60_000;
const lifeOf = (seed: number, minutes: number, only?: ReadonlySet<string>) =>
  lives(new Chance(seed), minutes * MINUTE_MS, { watchdog: true, only });
const planOf = (seed: number, watchdog = true) => schedule(new Chance(seed), MINUTE_MS, { watchdog });

describe('a schedule', () => {
  it('is the same for the same seed and differs for another', () => {
    expect(planOf(1)).toEqual(planOf(1));
    expect(planOf(1)).not.toEqual(planOf(2));
  });

  it('has some of everything within two minutes, in order, and ends in time', () => {
    const planned = schedule(new Chance(3), 2 * MINUTE_MS, { watchdog: true });
    expect(new Set(planned.map(({ disturbance }) => disturbance.kind)).size).toBe(19);
    const times = planned.map(({ atMs }) => atMs);
    expect(times).toEqual(times.toSorted((a, b) => a - b));
    expect(times.every((atMs) => atMs >= 0 && atMs < 2 * MINUTE_MS)).toBe(true);
  });

  it('leaves no engine hanging where nothing would replace it', () => {
    expect(planOf(3, false).some(({ disturbance }) => disturbance.kind === 'hang an engine')).toBe(false);
  });

  it('has lives of every kind that end in every way within half an hour, the last one with the run', () => {
    const all = lifeOf(4, 30);
    expect(new Set(all.map(({ stop }) => stop?.kind))).toEqual(
      new Set(['SIGTERM', 'SIGTERM twice', 'close the terminal', 'SIGKILL', undefined]),
    );
    expect(new Set(all.map(({ settings }) => settings.memory))).toEqual(new Set(['ample', 'one model']));
    const drains = all.flatMap(({ stop }) => (stop !== undefined && 'drainMs' in stop ? [stop.drainMs] : []));
    expect(Math.min(...drains)).toBe(0);
    expect(Math.max(...drains)).toBeGreaterThan(25_000);
    expect(all.at(-1)?.stop).toBeUndefined();
    expect(lifeOf(4, 30)).toEqual(all);
  });

  it('closes no terminal where there is none', () => {
    for (const { settings, stop } of lifeOf(5, 60)) {
      if (stop?.kind === 'close the terminal') expect(settings.terminal).toBe(true);
    }
  });

  it('does what was asked for alone', () => {
    const [first] = lifeOf(6, 1, new Set(['twin']));
    expect(new Set(first?.planned.map(({ disturbance }) => disturbance.kind))).toEqual(new Set(['twin']));
    const all = lifeOf(6, 2, new Set(['SIGKILL']));
    expect(all.flatMap(({ planned }) => planned)).toEqual([]);
    expect(new Set(all.map(({ stop }) => stop?.kind))).toEqual(new Set(['SIGKILL', undefined]));
  });
});
