import { describe, expect, it } from 'vitest';
import type { LiveTick } from '../../../src/server/live/live-event.ts';
import { Hour } from './hour.ts';

const tick = (seconds: number, tokens: number) =>
  ({ atMs: 1000 * seconds, engines: [{ promptTokens: 0, generatedTokens: tokens }] }) as unknown as LiveTick;
const point = (seconds: number, tokens: number) => ({
  atMs: 1000 * seconds,
  promptTokens: 0,
  generatedTokens: tokens,
});

describe('the hour before now', () => {
  it('goes on from what the server has sent, by what ticks tell', () => {
    const hour = new Hour();
    hour.begin([point(100, 50), point(105, 10)]);
    for (let seconds = 106; seconds <= 111; seconds++) hour.add(tick(seconds, 5));
    expect(hour.times).toEqual([100, 105, 110]);
    expect(hour.decodeRate).toEqual([10, 2, 4]);
  });

  it('is zero where nothing happened for long', () => {
    const hour = new Hour();
    hour.begin([point(100, 50), point(1000, 50)]);
    expect(hour.times).toEqual([100, 105, 995, 1000]);
    expect(hour.decodeRate).toEqual([10, 0, 0, 10]);
  });

  it('is no longer than an hour', () => {
    const hour = new Hour();
    hour.begin([point(100, 50), point(200, 50)]);
    hour.add(tick(3750, 1));
    expect(hour.times[0]).toBeGreaterThanOrEqual(150);
  });
});
