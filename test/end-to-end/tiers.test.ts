// The running program when more is asked than it can do: HIGH keys go before NORMAL before LOW, everyone is served in
// the end, and a flood from one key does not bury the others of its tier.

import { beforeAll, describe, expect, it } from 'vitest';
import { hasAddon } from '../support/native.ts';
import { engineStats, type ServerProcess, serverHome, waitUntil } from '../support/server-process.ts';
import { type StreamBody, StreamClient } from '../support/stream-client.ts';

const PLACES = 2;

const home = serverHome();
let keys: Readonly<Record<'admin' | 'high' | 'normal' | 'low' | 'flood' | 'modest', string>>;
/** One for each place: an account that runs several would make place for another. */
let holderKeys: readonly string[];
let server: ServerProcess;

beforeAll(async () => {
  keys = {
    admin: home.createKey('admin', 'high', '--admin'),
    high: home.createKey('high', 'high'),
    normal: home.createKey('normal', 'normal'),
    low: home.createKey('low', 'low'),
    flood: home.createKey('flood', 'normal'),
    modest: home.createKey('modest', 'normal'),
  };
  holderKeys = Array.from({ length: PLACES }, (_, n) => home.createKey(`holder-${n}`, 'high'));
  server = await home.start('--max-batch-size', String(PLACES));
});

interface QueuedRequest {
  /** Its key's name. */
  readonly name: string;
  readonly key: string;
  readonly path?: string;
}

interface Outcome {
  readonly name: string;
  readonly firstTokenMs: number;
}

const body = (n: number): StreamBody => ({
  prompt: `Story ${n}: once upon a time`,
  // Long next to what a busy machine takes from the server between two answers, or their times say nothing.
  max_tokens: 100,
  temperature: 0,
  ignore_eos: true,
});

/**
 * Holds every place of the batch until all requests wait in the given order, then lets them go. Gives them in the order
 * of their first tokens, as the server's own times have it: a client that is busy reads its connections in any order.
 * Every one must be served in full.
 */
async function overload(requests: readonly QueuedRequest[]): Promise<Outcome[]> {
  const holders = holderKeys.map(
    (key, n) => new StreamClient(server.url, { ...body(n), max_tokens: 4000 }, { key }),
  );
  await waitUntil(() => holders.every(({ pieces }) => pieces > 0));
  const clients = requests.map(
    ({ key, path }, n) =>
      new StreamClient(server.url, body(n), { key, ...(path === undefined ? {} : { path }) }),
  );
  await waitUntil(async () => (await waiting()) === requests.length);
  expect(clients.some(({ pieces }) => pieces > 0)).toBe(false);
  for (const holder of holders) holder.leave();
  for (const { answer } of clients) {
    expect(await answer).toMatchObject({ status: 200, done: true, reason: 'length' });
  }
  const outcomes = (await newestRequests(requests.length)).map(({ keyName, arrivedMs, firstTokenMs }) => ({
    name: keyName,
    firstTokenMs,
    startedMs: arrivedMs + firstTokenMs,
  }));
  expect(outcomes.map(({ name }) => name).sort()).toEqual(requests.map(({ name }) => name).sort());
  return outcomes.sort((a, b) => a.startedMs - b.startedMs);
}

interface AnsweredRequest {
  readonly keyName: string;
  readonly arrivedMs: number;
  readonly firstTokenMs: number;
}

async function newestRequests(count: number): Promise<AnsweredRequest[]> {
  const response = await fetch(`${server.url}/requests`, {
    headers: { authorization: `Bearer ${keys.admin}` },
  });
  const { data } = (await response.json()) as { readonly data: readonly AnsweredRequest[] };
  return data.slice(0, count);
}

async function waiting(): Promise<number> {
  const { queues } = await engineStats(server, keys.admin);
  return queues.reduce((sum, queue) => sum + queue.waiting, 0);
}

const times = (count: number, request: QueuedRequest): QueuedRequest[] =>
  Array.from({ length: count }, () => request);

function medianMs(outcomes: readonly Outcome[], name: string): number {
  const sorted = outcomes.filter((one) => one.name === name).map(({ firstTokenMs }) => firstTokenMs);
  sorted.sort((a, b) => a - b);
  return sorted[sorted.length >> 1] as number;
}

describe.skipIf(!hasAddon)('under overload (with the addon)', () => {
  // Who starts in the same or the next step may be read in either order, so PLACES of slack.

  it('HIGH starts before NORMAL before LOW, whatever their order, and LOW ends too', async () => {
    const outcomes = await overload([
      ...times(10, { name: 'low', key: keys.low }),
      ...times(10, { name: 'normal', key: keys.normal }),
      ...times(10, { name: 'high', key: keys.high }),
    ]);
    const names = outcomes.map(({ name }) => name);
    expect(names.lastIndexOf('high')).toBeLessThan(10 + PLACES);
    expect(names.indexOf('normal')).toBeGreaterThanOrEqual(10 - PLACES);
    expect(names.lastIndexOf('normal')).toBeLessThan(20 + PLACES);
    expect(names.indexOf('low')).toBeGreaterThanOrEqual(20 - PLACES);
    expect(medianMs(outcomes, 'high')).toBeLessThan(medianMs(outcomes, 'low'));
  });

  it('what a HIGH key sends to /v1/batch waits like LOW', async () => {
    const outcomes = await overload([
      ...times(8, { name: 'high', key: keys.high, path: '/v1/batch/completions' }),
      ...times(8, { name: 'normal', key: keys.normal }),
    ]);
    const names = outcomes.map(({ name }) => name);
    expect(names.indexOf('high')).toBeGreaterThanOrEqual(8 - PLACES);
    expect(names.lastIndexOf('normal')).toBeLessThan(8 + PLACES);
  });

  it('keys of one tier are served in turn, however much one of them sends', async () => {
    const outcomes = await overload([
      ...times(40, { name: 'flood', key: keys.flood }),
      ...times(4, { name: 'modest', key: keys.modest }),
    ]);
    // Taken in turn, all four have started when four of the flood have.
    const last = outcomes.findLastIndex(({ name }) => name === 'modest');
    expect(last).toBeLessThan(4 + 4 + PLACES);
  });
});
