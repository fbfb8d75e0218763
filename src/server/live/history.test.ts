import { describe, expect, it } from 'vitest';
import { History } from './history.ts';
import { SlidingPercentiles } from './recent-measurements.ts';

const START_MS = 1_700_000_000_000;

function historyAt(clock: { nowMs: number }) {
  const measured = { firstToken: new SlidingPercentiles(), betweenTokens: new SlidingPercentiles() };
  const clocks = { nowMs: () => clock.nowMs, wallMs: () => START_MS + clock.nowMs };
  return { ...measured, history: new History(measured, clocks) };
}

describe('the history of a server', () => {
  it('has what happened in each slot of five seconds, once it is over', () => {
    const clock = { nowMs: 1000 };
    const { history, betweenTokens } = historyAt(clock);
    history.prompt(40);
    history.token();
    betweenTokens.add(20, clock.nowMs);
    history.token();
    expect(history.points()).toEqual([]);
    clock.nowMs = 6000;
    history.token();
    expect(history.points()).toEqual([
      {
        atMs: START_MS + 5000,
        promptTokens: 40,
        generatedTokens: 2,
        betweenTokens: expect.objectContaining({ p50: expect.closeTo(20, 0) }),
      },
    ]);
    clock.nowMs = 60_000;
    expect(history.points().map(({ atMs, generatedTokens }) => [atMs - START_MS, generatedTokens])).toEqual([
      [5000, 2],
      [10_000, 1],
    ]);
  });

  it('stores nothing where nothing happens, and forgets what is older than an hour', () => {
    const clock = { nowMs: 0 };
    const { history } = historyAt(clock);
    history.token();
    clock.nowMs = 3_000_000;
    history.token();
    clock.nowMs = 3_600_000;
    expect(history.points()).toHaveLength(2);
    clock.nowMs = 3_700_000;
    expect(history.points()).toHaveLength(1);
  });

  it('is bounded however long a server runs', () => {
    const clock = { nowMs: 0 };
    const { history } = historyAt(clock);
    for (let slot = 0; slot < 5000; slot++) {
      clock.nowMs = slot * 5000;
      history.token();
    }
    expect(history.points().length).toBeLessThanOrEqual(720);
  });
});
