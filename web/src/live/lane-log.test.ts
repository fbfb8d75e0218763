import { describe, expect, it } from 'vitest';
import type { RunningSequence, StepTrace } from '../../../src/engine/live/snapshot.ts';
import { LaneLog, LOG_MS } from './lane-log.ts';

const sequence = (lane: number, requestId: string): RunningSequence => ({
  lane,
  requestId,
  tier: 'normal',
  phase: 'decode',
  promptTokens: 10,
  cachedTokens: 0,
  tokens: 11,
  computedTokens: 10,
  blocks: 1,
  ageMs: 0,
});
const step = (atMs: number, ...sequences: [number, number, number][]): StepTrace => ({
  step: atMs,
  atMs,
  ms: 10,
  sequences,
});

describe('the log of lanes', () => {
  it('tells prompt chunks from decoding, the last chunk among them', () => {
    const log = new LaneLog();
    log.add(
      [step(0, [0, 64, 0]), step(10, [0, 8, 1]), step(20, [0, 1, 1]), step(30, [0, 1, 1])],
      [sequence(0, 'a')],
      40,
    );
    expect(log.spans).toEqual([
      { lane: 0, kind: 'prompt', fromMs: 0, toMs: 20 },
      { lane: 0, kind: 'decode', fromMs: 20, toMs: 40 },
    ]);
    expect(log.steps.map(({ promptTokens, decodeTokens }) => [promptTokens, decodeTokens])).toEqual([
      [64, 0],
      [8, 0],
      [0, 1],
      [0, 1],
    ]);
  });

  it('knows when each request came and left', () => {
    const log = new LaneLog();
    log.add([step(0, [0, 8, 1]), step(10, [0, 1, 1])], [sequence(0, 'a')], 20);
    log.add([step(20, [0, 1, 1]), step(30, [0, 1, 1])], [], 250);
    log.add([step(250, [0, 8, 1])], [sequence(0, 'b')], 260);
    expect(log.occupancies).toEqual([
      { lane: 0, requestId: 'a', fromMs: 0, toMs: 40 },
      { lane: 0, requestId: 'b', fromMs: 250 },
    ]);
    expect(log.spans.map(({ kind }) => kind)).toEqual(['prompt', 'decode', 'prompt']);
    log.clear(300);
    expect(log.occupancies.every(({ toMs }) => toMs !== undefined)).toBe(true);
  });

  it('forgets what is too old to be shown', () => {
    const log = new LaneLog();
    for (let atMs = 0; atMs < 4 * LOG_MS; atMs += 1000)
      log.add([step(atMs, [0, 1, 1])], [sequence(0, 'a')], atMs + 10);
    expect(log.steps.length).toBeLessThan((1.5 * LOG_MS) / 1000);
    expect(log.spans.length).toBeLessThan((1.5 * LOG_MS) / 1000);
  });
});
