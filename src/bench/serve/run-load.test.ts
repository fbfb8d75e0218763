import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import { noKey, type PlannedRequest } from './load-plan.ts';
import type { StreamedAnswer } from './request-record.ts';
import { runLoad } from './run-load.ts';

const planned = (count: number, arrivalMs: (n: number) => number = () => 0): PlannedRequest[] =>
  Array.from({ length: count }, (_, index) => ({
    index,
    key: noKey,
    promptTokens: 1,
    outputTokens: 1,
    prefix: undefined,
    arrivalMs: arrivalMs(index),
  }));

const nowMs = () => performance.now();
const answer = (sentMs: number): StreamedAnswer => ({
  sentMs,
  endMs: nowMs(),
  chunkMs: [nowMs()],
  usage: undefined,
  finishReason: 'stop',
  outcome: { kind: 'complete' },
});

describe('sending a load', () => {
  it('keeps as many requests under way as it may, never more', async () => {
    let running = 0;
    let most = 0;
    const records = await runLoad(planned(20), {
      concurrency: 4,
      signal: new AbortController().signal,
      nowMs,
      send: async ({ index }) => {
        const sentMs = nowMs();
        most = Math.max(most, ++running);
        await sleep(index % 3);
        running--;
        return answer(sentMs);
      },
    });
    expect(most).toBe(4);
    expect(records.map(({ index }) => index)).toEqual(planned(20).map(({ index }) => index));
    expect(records.every(({ sentMs, endMs }) => sentMs >= 0 && endMs >= sentMs)).toBe(true);
  });

  it('sends nothing before its time, and does not wait for answers where there is no limit', async () => {
    let release = () => {};
    const all = new Promise<void>((resolve) => {
      release = resolve;
    });
    const records = await runLoad(
      planned(6, (n) => 5 * n),
      {
        concurrency: undefined,
        signal: new AbortController().signal,
        nowMs,
        send: async ({ index }) => {
          const sentMs = nowMs();
          if (index === 5) release();
          await all;
          return answer(sentMs);
        },
      },
    );
    // A timer may fire a little early by the other clock.
    for (const { sentMs, arrivalMs } of records) expect(sentMs).toBeGreaterThan(arrivalMs - 2);
  });

  it('sends nothing more once it is ended, and gives what was sent', async () => {
    const ending = new AbortController();
    const seen: string[] = [];
    const records = await runLoad(planned(50), {
      concurrency: 2,
      signal: ending.signal,
      nowMs,
      send: async ({ index }) => {
        const sentMs = nowMs();
        if (index === 4) ending.abort();
        await sleep(1);
        return answer(sentMs);
      },
      onStart: ({ index }) => seen.push(`start ${index}`),
      onEnd: ({ index }) => seen.push(`end ${index}`),
    });
    expect(records.length).toBeGreaterThanOrEqual(5);
    expect(records.length).toBeLessThanOrEqual(6);
    expect(seen).toHaveLength(2 * records.length);
  });

  it('does not wait for a far arrival once it is ended', async () => {
    const ending = new AbortController();
    const run = runLoad(
      planned(2, (n) => n * 3_600_000),
      { concurrency: 1, signal: ending.signal, nowMs, send: async () => answer(nowMs()) },
    );
    await sleep(5);
    ending.abort();
    expect(await run).toHaveLength(1);
  });
});
