import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterEach, describe, expect, it } from 'vitest';
import {
  type Asked,
  type Behaviour,
  CACHED_TOKENS,
  type CompletionStandIn,
  EXTRA_TOKENS,
  startStandIn,
  TOKENS_PER_WORD,
} from '../../../test/support/completion-stand-in.ts';
import { noKey } from './load-plan.ts';
import { reportPage } from './report-page.ts';
import { failureTable, notesOn, overviewRows } from './report-rows.ts';
import { LiveLoad } from './run-load.ts';
import { benchServer } from './serve-bench.ts';
import { fullJson, type ServeReport, type ServeSettings, summaryJson } from './serve-report.ts';
import { TargetError } from './target.ts';

let server: CompletionStandIn | undefined;
afterEach(async () => {
  await server?.close();
  server = undefined;
});

const plain: Omit<ServeSettings, 'baseUrl'> = {
  model: undefined,
  endpoint: 'chat',
  keys: [noKey],
  requests: 12,
  warmup: 0,
  requestsPerSecond: undefined,
  concurrency: 4,
  promptTokens: { kind: 'fixed', tokens: 45 },
  outputTokens: { kind: 'fixed', tokens: 6 },
  prefixes: 1,
  prefixTokens: 0,
  temperature: 0,
  seed: 1,
  ignoreEos: false,
  timeoutMs: 20_000,
  goodput: undefined,
};

async function bench(
  over: Partial<ServeSettings> = {},
  behave: (asked: Asked, n: number) => Behaviour = () => ({ kind: 'stream' }),
  signal = new AbortController().signal,
): Promise<ServeReport> {
  server = await startStandIn(behave);
  const live = new LiveLoad();
  return benchServer({ ...plain, baseUrl: `${server.url}/v1`, ...over }, { signal, live });
}

const promptOf = ({ body }: Asked) => body.messages?.[0]?.content ?? body.prompt ?? '';

describe('a run against a server', () => {
  it('sends prompts of the wanted tokens, whatever a word has of them', async () => {
    const { summary, calibration, model } = await bench();
    expect(calibration).toEqual({
      tokensPerWord: TOKENS_PER_WORD,
      extraTokens: EXTRA_TOKENS,
      isMeasured: true,
    });
    expect(model).toBe('stand-in');
    expect(server?.asked.map((one) => promptOf(one).split(' ').length)).toEqual(Array(12).fill(20));
    expect(summary).toMatchObject({
      sent: 12,
      completed: 12,
      promptTokens: 12 * 45,
      outputTokens: 12 * 6,
      cachedTokens: 12 * CACHED_TOKENS,
      peakConcurrency: 4,
    });
    expect(server?.connections()).toBeLessThanOrEqual(4);
  });

  it('asks for exactly what was set', async () => {
    const over = { endpoint: 'completions', model: 'other', temperature: 0.5, ignoreEos: true } as const;
    await bench({ ...over, requests: 2, seed: 40, concurrency: 1 });
    expect(server?.asked.map(({ path }) => path)).toEqual(['/v1/completions', '/v1/completions']);
    expect(server?.asked.map(({ body }) => body)).toMatchObject([
      { model: 'other', max_tokens: 6, temperature: 0.5, seed: 40, ignore_eos: true },
      { model: 'other', max_tokens: 6, temperature: 0.5, seed: 41, ignore_eos: true },
    ]);
    await server?.close();
    await bench({ requests: 1 });
    expect(server?.asked[0]?.body).not.toHaveProperty('ignore_eos');
    expect(server?.asked[0]?.body).not.toHaveProperty('seed');
  });

  it('sends the same load for the same seed', async () => {
    const lengths = { kind: 'lognormal', median: 40, sigma: 0.5 } as const;
    const load = {
      promptTokens: lengths,
      outputTokens: lengths,
      prefixTokens: 20,
      prefixes: 2,
      concurrency: 1,
    };
    await bench(load);
    const first = server?.asked.map(({ body }) => body);
    await server?.close();
    await bench(load);
    expect(server?.asked.map(({ body }) => body)).toEqual(first);
    await server?.close();
    await bench({ ...load, seed: 2 });
    expect(server?.asked.map(({ body }) => body)).not.toEqual(first);
  });

  it('does not count the warm-up', async () => {
    const { summary, records } = await bench({ warmup: 5, requests: 3 });
    expect(server?.asked).toHaveLength(8);
    expect(summary).toMatchObject({ sent: 3, completed: 3 });
    expect(records.map(({ index }) => index)).toEqual([0, 1, 2]);
  });

  it('divides the load among keys and reports each', async () => {
    const keys = [
      { name: 'vip', secret: 'sk-vip', weight: 1 },
      { name: 'bulk', secret: 'sk-bulk', weight: 3 },
    ];
    const report = await bench({ keys, goodput: { e2el: 20_000 } });
    const sentBy = (secret: string) =>
      server?.asked.filter(({ authorization }) => authorization === `Bearer ${secret}`).length;
    expect([sentBy('sk-vip'), sentBy('sk-bulk')]).toEqual([3, 9]);
    expect(report.keys).toMatchObject([
      { name: 'vip', weight: 1, sent: 3, outputTokens: 18, goodput: { requests: 3, share: 1 } },
      { name: 'bulk', weight: 3, sent: 9, outputTokens: 54 },
    ]);
    for (const text of [summaryJson(report), fullJson(report), reportPage(report)]) {
      expect(text).not.toMatch(/sk-vip|sk-bulk/);
    }
    expect(reportPage(report)).toContain('by key');
  });

  it('counts what fails by its kind and goes on', async () => {
    const behaviours: readonly Behaviour[] = [
      { kind: 'stream' },
      { kind: 'refuse', status: 429, headers: { 'retry-after': '3' } },
      { kind: 'refuse', status: 500 },
      { kind: 'stream', endAfter: { chunks: 2, by: 'close' } },
      { kind: 'hang' },
      { kind: 'stream', usage: false },
    ];
    const report = await bench({ timeoutMs: 2000 }, (_, n) => behaviours[n % 6] as Behaviour);
    const { summary } = report;
    expect(summary).toMatchObject({ sent: 12, completed: 4, failed: 8, rateLimited: 2, cutOff: 0 });
    expect(summary.outputTokensFrom).toBe('usage and chunks');
    const counts = summary.failures.map(({ failure, status, count }) => [failure, status, count]);
    expect(counts.sort()).toEqual([
      ['connection', 200, 2],
      ['http', 500, 2],
      ['rate-limited', 429, 2],
      ['timeout', undefined, 2],
    ]);
    expect(failureTable(summary)?.rows.find(([name]) => name === 'rate-limited 429')?.[2]).toBe('3 s');
    expect(notesOn(report).join()).toContain('each chunk counts as one token');
    expect(reportPage(report)).toContain('failed, at their end');
  });

  it('reports what is there when it is ended in its midst', async () => {
    const ending = new AbortController();
    const report = await bench(
      { requests: 40, concurrency: 2 },
      (_, n) => {
        // Two at a time: before the eighth was sent, six had ended.
        if (n === 7) ending.abort();
        return n < 6 ? { kind: 'stream' } : { kind: 'hang' };
      },
      ending.signal,
    );
    expect(report.summary).toMatchObject({ completed: 6, cutOff: 2, failed: 0 });
    expect(notesOn(report).join()).toContain('8 of 40 requests were sent');
    expect(Object.fromEntries(overviewRows(report))).toMatchObject({ completed: '6 of 40' });
  });

  it('arrives at random where a rate is asked, and tells how late it was', async () => {
    const { records, client } = await bench({ requestsPerSecond: 400, concurrency: undefined });
    expect(new Set(records.map(({ arrivalMs }) => arrivalMs)).size).toBe(12);
    expect(client.sendDelayMs?.count).toBe(12);
    expect(client.busyShare).toBeGreaterThan(0);
  });

  it('says what to do where no load can be sent at all', async () => {
    await expect(bench({ baseUrl: 'http://127.0.0.1:1/v1' })).rejects.toThrow(TargetError);
    const page = createServer((_, response) => response.end('<html>'));
    await new Promise<void>((resolve) => page.listen(0, '127.0.0.1', resolve));
    const { port } = page.address() as AddressInfo;
    await server?.close();
    await expect(bench({ baseUrl: `http://127.0.0.1:${port}/v1` })).rejects.toThrow(
      'does not answer in JSON',
    );
    page.closeAllConnections();
    page.close();
  });
});

describe('what is written', () => {
  it('is one line of JSON with the figures, and one with every request', async () => {
    const report = await bench({ requests: 5 });
    const line = JSON.parse(summaryJson(report)) as Record<string, unknown>;
    expect(summaryJson(report)).not.toContain('\n');
    expect(line).toMatchObject({ bench: 'serve', model: 'stand-in', completed: 5, load: { requests: 5 } });
    expect(line).not.toHaveProperty('requests');
    const full = JSON.parse(fullJson(report)) as { requests: Record<string, unknown>[] };
    expect(full.requests).toHaveLength(5);
    expect(full.requests[0]).toMatchObject({
      index: 0,
      usage: { outputTokens: 6 },
      ttftMs: expect.any(Number),
    });
  });

  it('is a page that needs nothing but itself', async () => {
    const page = reportPage(await bench({ requests: 5, model: '<model> & "co"' }));
    expect(page).toMatch(/^<!doctype html>/);
    expect(page).toContain('&lt;model&gt; &amp; &quot;co&quot;');
    expect(page).not.toMatch(/<script|<link|<img|src=|url\(|NaN|undefined|Infinity/);
    expect(page.match(/<svg /g)).toHaveLength(8);
    for (const word of ['TTFT', 'TPOT', 'ITL', 'E2EL', 'Requests under way', 'prefers-color-scheme:dark']) {
      expect(page).toContain(word);
    }
  });

  it('is a page also where nothing was completed', async () => {
    const report = await bench({ requests: 2 }, () => ({ kind: 'refuse', status: 503 }));
    expect(report.summary).toMatchObject({ completed: 0, failed: 2 });
    expect(reportPage(report)).not.toMatch(/NaN|Infinity|undefined/);
  });
});
