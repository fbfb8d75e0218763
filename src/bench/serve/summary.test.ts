import { describe, expect, it } from 'vitest';
import { distributionOf, percentile, sort } from '../statistics.ts';
import {
  keepsLimits,
  measureRequest,
  type Outcome,
  parseGoodput,
  type RequestRecord,
} from './request-record.ts';
import {
  concurrencyOverTime,
  highestOverTime,
  outputOverTime,
  peakConcurrency,
  summarize,
  windowOf,
} from './summary.ts';

function record(over: Partial<RequestRecord>): RequestRecord {
  return {
    index: 0,
    keyName: 'a',
    arrivalMs: 0,
    wantedPromptTokens: 10,
    wantedOutputTokens: 4,
    sentMs: 100,
    endMs: 500,
    chunkMs: [200, 250, 350, 480],
    usage: { promptTokens: 12, cachedTokens: 3, outputTokens: 5 },
    finishReason: 'stop',
    outcome: { kind: 'complete' },
    ...over,
  };
}

const failed = (status: number | undefined, retryAfterSeconds?: number): Outcome => ({
  kind: 'failed',
  failure: status === 429 ? 'rate-limited' : status === undefined ? 'timeout' : 'http',
  status,
  message: `message ${retryAfterSeconds}`,
  retryAfterSeconds,
});

describe('the measures of a request', () => {
  it('follow their definitions', () => {
    expect(measureRequest(record({}))).toEqual({
      ttftMs: 100,
      // (400 - 100) / (5 - 1)
      tpotMs: 75,
      gapsMs: [50, 100, 130],
      e2elMs: 400,
      outputTokens: 5,
    });
  });

  it('count chunks where the server did not count tokens', () => {
    expect(measureRequest(record({ usage: undefined }))).toMatchObject({ outputTokens: 4, tpotMs: 100 });
  });

  it('have no time per further token with one token, and no first token without any', () => {
    const usage = { promptTokens: 12, cachedTokens: 0, outputTokens: 1 };
    expect(measureRequest(record({ usage, chunkMs: [480] }))).toMatchObject({
      ttftMs: 380,
      tpotMs: undefined,
    });
    expect(measureRequest(record({ usage, chunkMs: [] }))).toMatchObject({ ttftMs: undefined, gapsMs: [] });
  });
});

describe('statistics', () => {
  it('interpolate between values, as numpy does', () => {
    // numpy.percentile([15, 20, 35, 40, 50], [0, 40, 50, 90, 99, 100])
    const sorted = sort([50, 15, 40, 20, 35]);
    const found = [0, 40, 50, 90, 99, 100].map((percent) => percentile(sorted, percent));
    [15, 29, 35, 46, 49.6, 50].forEach((value, n) => {
      expect(found[n]).toBeCloseTo(value, 9);
    });
  });

  it('are absent where nothing was measured', () => {
    expect(distributionOf([])).toBeUndefined();
    expect(distributionOf([4])).toEqual({ count: 1, mean: 4, p50: 4, p90: 4, p99: 4, max: 4 });
  });
});

describe('a summary', () => {
  const records = [
    record({}),
    record({
      index: 1,
      sentMs: 300,
      chunkMs: [340, 360],
      endMs: 700,
      usage: { promptTokens: 20, cachedTokens: 13, outputTokens: 3 },
    }),
    record({ index: 2, sentMs: 500, endMs: 510, chunkMs: [], usage: undefined, outcome: failed(429, 2) }),
    record({ index: 3, sentMs: 500, endMs: 520, chunkMs: [], usage: undefined, outcome: failed(429, 7) }),
    record({
      index: 4,
      sentMs: 550,
      endMs: 950,
      chunkMs: [600],
      usage: undefined,
      outcome: failed(undefined),
    }),
    record({
      index: 5,
      sentMs: 600,
      endMs: 1100,
      chunkMs: [700],
      usage: undefined,
      outcome: { kind: 'cut-off' },
    }),
  ];
  const summary = summarize(records, { durationMs: 2000, goodput: { ttft: 50 } });

  it('counts every outcome once', () => {
    const { sent, completed, failed: failures, rateLimited, cutOff } = summary;
    expect({ sent, completed, failures, rateLimited, cutOff }).toEqual({
      sent: 6,
      completed: 2,
      failures: 3,
      rateLimited: 2,
      cutOff: 1,
    });
  });

  it('divides what complete answers hold by the duration', () => {
    expect(summary).toMatchObject({
      promptTokens: 32,
      outputTokens: 8,
      outputTokensFrom: 'usage',
      requestsPerSecond: 1,
      outputTokensPerSecond: 4,
      totalTokensPerSecond: 20,
      cachedTokens: 16,
      cachedShare: 0.5,
      peakConcurrency: 3,
    });
  });

  it('takes latencies of complete answers alone, gaps pooled', () => {
    expect(summary.ttftMs).toMatchObject({ count: 2, mean: 70, p50: 70, max: 100 });
    expect(summary.itlMs).toMatchObject({ count: 4, mean: (50 + 100 + 130 + 20) / 4, max: 130 });
    expect(summary.e2elMs).toMatchObject({ count: 2, mean: 400 });
    // 75 and (400 - 40) / 2
    expect(summary.tpotMs).toMatchObject({ count: 2, mean: 127.5 });
  });

  it('groups failures and tells the range of Retry-After', () => {
    expect(summary.failures).toEqual([
      {
        failure: 'rate-limited',
        status: 429,
        count: 2,
        message: 'message 2',
        retryAfterSeconds: { min: 2, max: 7 },
      },
      {
        failure: 'timeout',
        status: undefined,
        count: 1,
        message: 'message undefined',
        retryAfterSeconds: undefined,
      },
    ]);
  });

  it('counts towards goodput who keeps the limits, of all that were sent', () => {
    expect(summary.goodput).toEqual({
      limitsMs: { ttft: 50 },
      requests: 1,
      requestsPerSecond: 0.5,
      share: 1 / 6,
    });
  });

  it('says where its tokens come from, and what the server does not tell', () => {
    const quiet = record({ usage: undefined });
    const options = { durationMs: 1000 };
    expect(summarize([quiet], options)).toMatchObject({
      outputTokensFrom: 'chunks',
      outputTokens: 4,
      promptTokens: undefined,
      cachedShare: undefined,
    });
    expect(summarize([quiet, record({})], options).outputTokensFrom).toBe('usage and chunks');
    const untold = record({ usage: { promptTokens: 5, cachedTokens: undefined, outputTokens: 2 } });
    expect(summarize([untold], options)).toMatchObject({ promptTokens: 5, cachedTokens: undefined });
  });

  it('of nothing is zeros', () => {
    expect(summarize([], { durationMs: 0 })).toMatchObject({
      sent: 0,
      requestsPerSecond: 0,
      ttftMs: undefined,
    });
  });
});

describe('goodput limits', () => {
  it('are read from their form alone', () => {
    expect(parseGoodput('ttft:500,tpot:50,e2el:5000')).toEqual({ ttft: 500, tpot: 50, e2el: 5000 });
    expect(parseGoodput('tpot:12.5')).toEqual({ tpot: 12.5 });
    for (const text of ['', 'ttft', 'itl:5', 'ttft:1,ttft:2', 'ttft:-1'])
      expect(parseGoodput(text)).toBeUndefined();
  });

  it('must all be kept; the limit itself is within', () => {
    const measures = { ttftMs: 100, tpotMs: 75, gapsMs: [], e2elMs: 400, outputTokens: 5 };
    expect(keepsLimits(measures, { ttft: 100, tpot: 75, e2el: 400 })).toBe(true);
    for (const limits of [{ ttft: 99 }, { tpot: 74 }, { e2el: 399 }, { ttft: 100, e2el: 1 }]) {
      expect(keepsLimits(measures, limits)).toBe(false);
    }
    expect(keepsLimits({ ...measures, ttftMs: undefined, tpotMs: undefined }, { ttft: 100 })).toBe(false);
    expect(keepsLimits({ ...measures, tpotMs: undefined }, { tpot: 1 })).toBe(true);
  });
});

function timed(
  sentMs: number,
  endMs: number,
  chunkMs: readonly number[] = [],
  outputTokens?: number,
): RequestRecord {
  const usage = outputTokens === undefined ? undefined : { promptTokens: 1, cachedTokens: 0, outputTokens };
  return record({ sentMs, endMs, chunkMs, usage });
}

describe('the run over time', () => {
  const records = [timed(0, 1000), timed(500, 2000), timed(1000, 1500)];

  it('lasts from the first request sent to the last one ended', () => {
    expect(windowOf([timed(40, 900), timed(30, 70)])).toEqual({ fromMs: 30, toMs: 900 });
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
    const streams = [timed(0, 1000, [100, 600], 10), timed(0, 1000, [700, 1000])];
    const output = outputOverTime(streams, { fromMs: 0, toMs: 1000 }, 500);
    expect(output).toEqual([
      [0.25, 10],
      [0.75, 14],
    ]);
    expect(output.reduce((sum, [, perSecond]) => sum + perSecond * 0.5, 0)).toBe(12);
  });

  it('takes a last part that is shorter for what it is', () => {
    const output = outputOverTime([timed(0, 1250, [1100], 5)], { fromMs: 0, toMs: 1250 }, 1000);
    expect(output).toEqual([
      [0.5, 0],
      [1.125, 20],
    ]);
  });
});
