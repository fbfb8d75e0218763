// The load generator against the running program: what it reports is what the server did.

import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeAll, describe, expect, it } from 'vitest';
import type { RequestRecord } from '../../src/bench/serve/request-record.ts';
import type { Summary } from '../../src/bench/serve/summary.ts';
import type { Distribution } from '../../src/bench/statistics.ts';
import { addBenchServe } from '../../src/cli/bench-serve.ts';
import { hasAddon } from '../support/native.ts';
import { type CommandOutcome, runCommand } from '../support/run-command.ts';
import { type ServerProcess, serverHome } from '../support/server-process.ts';

const ALLOWED = 4;

const home = serverHome();
let server: ServerProcess;
let keys: Readonly<Record<'vip' | 'bulk' | 'limited', string>>;

beforeAll(async () => {
  keys = {
    vip: home.createKey('vip', 'high'),
    bulk: home.createKey('bulk', 'low'),
    // Two of its requests count the tokens of words.
    limited: home.createKey('limited', 'normal', '--rpm', String(ALLOWED + 2)),
  };
  server = await home.start();
});

type Line = Summary & { readonly keys: readonly (Summary & { readonly name: string })[] };

function bench(...words: string[]): Promise<CommandOutcome> {
  return runCommand(addBenchServe, ['serve', '--url', server.url, ...words]);
}

function isOrdered({ mean, p50, p90, p99, max }: Distribution): boolean {
  return p50 > 0 && p50 <= p90 && p90 <= p99 && p99 <= max && mean <= max;
}

/** Percentiles as a plain reading of the definition gives them. */
function percentileOf(values: readonly number[], percent: number): number {
  const sorted = [...values].sort((left, right) => left - right);
  const place = ((sorted.length - 1) * percent) / 100;
  const [low, high] = [sorted[Math.floor(place)] as number, sorted[Math.ceil(place)] as number];
  return low + (high - low) * (place % 1);
}

describe.skipIf(!hasAddon)('bench serve on the running program (with the addon)', () => {
  it('counts requests and tokens as the server does, over all and by key', async () => {
    const [page, json] = [join(home.folder, 'report.html'), join(home.folder, 'report.json')];
    const { output, error } = await bench(
      ...[
        '--key',
        `vip=${keys.vip}`,
        '--key',
        `bulk:3=${keys.bulk}`,
        '--requests',
        '24',
        '--concurrency',
        '6',
      ],
      ...['--prompt-tokens', '30-60', '--output-tokens', '4-12', '--ignore-eos', '--warmup', '2'],
      ...[
        '--prefix-tokens',
        '96',
        '--prefixes',
        '2',
        '--goodput',
        'e2el:600000',
        '--html',
        page,
        '--json',
        json,
      ],
    );
    expect(error).toBeUndefined();
    const line = JSON.parse(output) as Line;
    expect(line).toMatchObject({
      sent: 24,
      completed: 24,
      failed: 0,
      cutOff: 0,
      peakConcurrency: 6,
      outputTokensFrom: 'usage',
      goodput: { requests: 24, share: 1 },
    });
    expect(line.keys.map(({ name, completed }) => [name, completed])).toEqual([
      ['vip', 6],
      ['bulk', 18],
    ]);
    for (const part of [line, ...line.keys]) {
      for (const figure of [part.ttftMs, part.tpotMs, part.itlMs, part.e2elMs]) {
        expect(isOrdered(figure as Distribution)).toBe(true);
      }
    }

    const { requests } = JSON.parse(readFileSync(json, 'utf8')) as { requests: RequestRecord[] };
    const sum = (value: (one: RequestRecord) => number) =>
      requests.reduce((total, one) => total + value(one), 0);
    expect(line.outputTokens).toBe(sum(({ wantedOutputTokens }) => wantedOutputTokens));
    expect(line.promptTokens).toBe(sum(({ usage }) => usage?.promptTokens ?? 0));
    const wanted = sum(({ wantedPromptTokens }) => 96 + wantedPromptTokens);
    expect(Math.abs((line.promptTokens as number) / wanted - 1)).toBeLessThan(0.1);
    // Two beginnings of three blocks, of which most requests find at least two computed.
    expect(line.cachedTokens).toBeGreaterThan(20 * 64);
    expect(line.cachedTokens).toBeLessThan(24 * 128);
    const latencies = requests.map(({ sentMs, endMs }) => endMs - sentMs);
    expect(line.e2elMs?.p90).toBeCloseTo(percentileOf(latencies, 90), 1);
    const firsts = requests.map(({ sentMs, chunkMs }) => (chunkMs[0] as number) - sentMs);
    expect(line.ttftMs?.p99).toBeCloseTo(percentileOf(firsts, 99), 1);
    expect(readFileSync(page, 'utf8')).toMatch(/^<!doctype html>[\s\S]*by key[\s\S]*<\/html>\n$/);
  });

  it('counts requests beyond the limit of a key as refused, with what Retry-After said', async () => {
    const { output } = await bench(
      ...['--key', keys.limited, '--requests', '10', '--concurrency', '1'],
      ...['--prompt-tokens', '20', '--output-tokens', '2', '--endpoint', 'completions'],
    );
    const line = JSON.parse(output) as Line;
    expect(line).toMatchObject({ sent: 10, failed: line.rateLimited, completed: 10 - line.rateLimited });
    // A minute is long, yet a slow machine may see the limit refill.
    expect(line.completed).toBeGreaterThanOrEqual(ALLOWED);
    expect(line.rateLimited).toBeGreaterThan(0);
    expect(line.failures[0]).toMatchObject({ failure: 'rate-limited', status: 429 });
    expect(line.failures[0]?.retryAfterSeconds?.min).toBeGreaterThan(0);
  });

  it('counts prompts that do not fit as failed, in the words of the server', async () => {
    const { output, exitCode } = await bench(
      ...['--key', keys.vip, '--requests', '3', '--prompt-tokens', '6000', '--output-tokens', '2', '--quiet'],
    );
    const line = JSON.parse(output) as Line;
    expect(line).toMatchObject({ sent: 3, completed: 0, failed: 3, rateLimited: 0 });
    expect(line.failures).toMatchObject([{ failure: 'http', status: 400, count: 3 }]);
    expect(line.failures[0]?.message).toContain('4096');
    expect(exitCode).toBe(1);
  });
});
