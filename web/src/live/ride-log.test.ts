import { describe, expect, it } from 'vitest';
import type { LiveStep, Rider } from '../../../src/server/live/live-event.ts';
import { LOG_MS, RideLog } from './ride-log.ts';

const rider = (seat: number, requestId: string): Rider => ({
  seat,
  requestId,
  tier: 'normal',
  phase: 'decode',
  promptTokens: 10,
  cachedTokens: 0,
  tokens: 11,
  computed: 10,
  blocks: 1,
  ageMs: 0,
});
const step = (atMs: number, ...rides: [number, number, number][]): LiveStep => ({
  step: atMs,
  atMs,
  ms: 10,
  rides,
});

describe('the log of rides', () => {
  it('tells prompt chunks from decoding, the last chunk among them', () => {
    const log = new RideLog();
    log.add(
      [step(0, [0, 64, 0]), step(10, [0, 8, 1]), step(20, [0, 1, 1]), step(30, [0, 1, 1])],
      [rider(0, 'a')],
      40,
    );
    expect(log.stretches).toEqual([
      { seat: 0, kind: 'prompt', fromMs: 0, toMs: 20 },
      { seat: 0, kind: 'decode', fromMs: 20, toMs: 40 },
    ]);
    expect(log.steps.map(({ promptTokens, decodeTokens }) => [promptTokens, decodeTokens])).toEqual([
      [64, 0],
      [8, 0],
      [0, 1],
      [0, 1],
    ]);
  });

  it('knows who got on and off', () => {
    const log = new RideLog();
    log.add([step(0, [0, 8, 1]), step(10, [0, 1, 1])], [rider(0, 'a')], 20);
    log.add([step(20, [0, 1, 1]), step(30, [0, 1, 1])], [], 250);
    log.add([step(250, [0, 8, 1])], [rider(0, 'b')], 260);
    expect(log.rides).toEqual([
      { seat: 0, requestId: 'a', fromMs: 0, toMs: 40 },
      { seat: 0, requestId: 'b', fromMs: 250 },
    ]);
    expect(log.stretches.map(({ kind }) => kind)).toEqual(['prompt', 'decode', 'prompt']);
    log.clear(300);
    expect(log.rides.every(({ toMs }) => toMs !== undefined)).toBe(true);
  });

  it('forgets what is too old to be shown', () => {
    const log = new RideLog();
    for (let atMs = 0; atMs < 4 * LOG_MS; atMs += 1000)
      log.add([step(atMs, [0, 1, 1])], [rider(0, 'a')], atMs + 10);
    expect(log.steps.length).toBeLessThan((1.5 * LOG_MS) / 1000);
    expect(log.stretches.length).toBeLessThan((1.5 * LOG_MS) / 1000);
  });
});
