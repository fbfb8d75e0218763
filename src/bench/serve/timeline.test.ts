import { describe, expect, it } from 'vitest';
import type { RequestRecord } from './request-record.ts';
import {
  concurrencyOverTime,
  highestOverTime,
  outputOverTime,
  peakConcurrency,
  windowOf,
} from './timeline.ts';

function record(
  sentMs: number,
  endMs: number,
  chunkMs: readonly number[] = [],
  outputTokens?: number,
): RequestRecord {
  return {
    index: 0,
    keyName: 'a',
    arrivalMs: 0,
    wantedPromptTokens: 1,
    wantedOutputTokens: 1,
    sentMs,
    endMs,
    chunkMs,
    usage: outputTokens === undefined ? undefined : { promptTokens: 1, cachedTokens: 0, outputTokens },
    finishReason: 'stop',
    outcome: { kind: 'complete' },
  };
}

describe('the run over time', () => {
  const records = [record(0, 1000), record(500, 2000), record(1000, 1500)];

  it('lasts from the first request sent to the last one ended', () => {
    expect(windowOf([record(40, 900), record(30, 70)])).toEqual({ fromMs: 30, toMs: 900 });
    expect(windowOf([])).toEqual({ fromMs: 0, toMs: 0 });
  });

  it('counts requests under way; one that starts as another ends does not add', () => {
    expect(concurrencyOverTime(records)).toEqual([
      [0, 1],
      [0.5, 2],
      [1, 1],
      [1, 2],
      [1.5, 1],
      [2, 0],
    ]);
    expect(peakConcurrency(records)).toBe(2);
    expect(peakConcurrency([])).toBe(0);
  });

  it('shows the highest number in each part, and the end', () => {
    const changes = concurrencyOverTime(records);
    expect(highestOverTime(changes, { fromMs: 0, toMs: 2000 }, 4)).toEqual([
      [0, 1],
      [0.5, 2],
      [1, 2],
      [1.5, 2],
      [2, 0],
    ]);
  });

  it('spreads tokens over chunks, so that all of them are counted', () => {
    const streams = [record(0, 1000, [100, 600], 10), record(0, 1000, [700, 1000])];
    const output = outputOverTime(streams, { fromMs: 0, toMs: 1000 }, 500);
    expect(output).toEqual([
      [0.25, 10],
      [0.75, 14],
    ]);
    expect(output.reduce((sum, [, perSecond]) => sum + perSecond * 0.5, 0)).toBe(12);
  });

  it('takes a last part that is shorter for what it is', () => {
    const output = outputOverTime([record(0, 1250, [1100], 5)], { fromMs: 0, toMs: 1250 }, 1000);
    expect(output).toEqual([
      [0.5, 0],
      [1.125, 20],
    ]);
  });
});
