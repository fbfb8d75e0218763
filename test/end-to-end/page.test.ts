// The page's side of the running program: it looks on while engines die, and has the server measure itself.

import { beforeAll, describe, expect, it } from 'vitest';
import type { BenchProgress, BenchResult, LiveTick, RequestTrace } from '../../src/server/live/live-event.ts';
import { hasAddon } from '../support/native.ts';
import { type ServerProcess, serverHome, waitUntil } from '../support/server-process.ts';
import { StreamClient } from '../support/stream-client.ts';

const home = serverHome();
let server: ServerProcess;
let boss: string;
let guest: string;

beforeAll(async () => {
  boss = home.createKey('boss', 'high', '--admin');
  guest = home.createKey('guest', 'normal');
  server = await home.start();
});

interface Heard {
  readonly event: string;
  readonly data: unknown;
}

/** Reads a stream's events as they come, until it ends or is left. */
async function listen(response: Response, onEvent: (heard: Heard) => void): Promise<void> {
  let text = '';
  for await (const piece of (response.body as ReadableStream<Uint8Array>).pipeThrough(
    new TextDecoderStream(),
  )) {
    text += piece;
    for (let end = text.indexOf('\n\n'); end >= 0; end = text.indexOf('\n\n')) {
      const [, event, data] = /^event: (\w+)\ndata: (.*)$/.exec(text.slice(0, end)) ?? [];
      text = text.slice(end + 2);
      if (event !== undefined && data !== undefined) onEvent({ event, data: JSON.parse(data) });
    }
  }
}

const authorization = (key: string) => ({ authorization: `Bearer ${key}` });

async function subscribe() {
  const leaving = new AbortController();
  const response = await fetch(`${server.url}/live`, {
    headers: authorization(boss),
    signal: leaving.signal,
  });
  const ticks: LiveTick[] = [];
  const hear = ({ event, data }: Heard) => {
    if (event !== 'history') ticks.push(data as LiveTick);
  };
  const reading = listen(response, hear).catch(() => {});
  const leave = async () => {
    leaving.abort();
    await reading;
  };
  return { ticks, leave };
}

function bench(body: object, signal?: AbortSignal): Promise<Response> {
  return fetch(`${server.url}/admin/bench`, {
    method: 'POST',
    headers: { ...authorization(boss), 'content-type': 'application/json' },
    body: JSON.stringify(body),
    ...(signal === undefined ? {} : { signal }),
  });
}

describe.skipIf(!hasAddon)('a viewer of the live feed (with the addon)', () => {
  it('sees an engine die and another start, and the stream goes on', async () => {
    const { ticks, leave } = await subscribe();
    const body = { prompt: 'Once upon a time there was a fox who', max_tokens: 1500, ignore_eos: true };
    const client = new StreamClient(server.url, body, { key: guest });
    const engine = () => ticks.at(-1)?.engines[0];
    await waitUntil(() => engine()?.running[0]?.phase === 'decode');
    expect(engine()?.starts).toBe(1);
    const requestId = engine()?.running[0]?.requestId ?? '';
    process.kill(server.enginePid(), 'SIGKILL');
    await waitUntil(() => engine()?.starts === 2 && engine()?.running.length === 1);
    expect(engine()?.running[0]?.requestId).toBe(requestId);
    const answer = await client.answer;
    expect(answer).toMatchObject({ status: 200, done: true, reason: 'length' });
    await waitUntil(() => ticks.some(({ ended }) => ended.some((one) => one.requestId === requestId)));
    await waitUntil(() => engine()?.running.length === 0 && engine()?.blockCounts.used === 0);
    await leave();
    const life = (await (
      await fetch(`${server.url}/requests/${requestId}`, { headers: authorization(guest) })
    ).json()) as RequestTrace;
    const happened = life.events.map(({ what }) => what);
    expect(happened).toEqual([
      'arrived',
      'submitted',
      'admitted',
      'first-token',
      'engine-died',
      'resumed',
      'ended',
    ]);
    expect(life).toMatchObject({
      running: false,
      outcome: 'ok',
      generatedTokens: 1500,
      endReasons: ['length'],
    });
  });

  it('has the server measure itself, one at a time, until it leaves', async () => {
    const small = { streams: 2, requests: 4, promptTokens: 20, answerTokens: 8 };
    const heard: Heard[] = [];
    await listen(await bench(small), (one) => heard.push(one));
    const [progress, last] = heard.slice(-2) as [Heard, Heard];
    expect(last.event, JSON.stringify(last)).toBe('result');
    const { rows, plots, failures } = last.data as BenchResult;
    expect(Object.fromEntries(rows)).toMatchObject({ completed: '4 of 4', 'output tokens': '32' });
    expect(failures).toBeUndefined();
    expect(plots.length).toBeGreaterThan(2);
    expect(plots.every((plot) => plot.startsWith('<svg'))).toBe(true);
    expect((progress.data as BenchProgress).done).toBe(4);

    const leaving = new AbortController();
    const long = await bench({ ...small, requests: 500, answerTokens: 1000 }, leaving.signal);
    expect(long.status).toBe(200);
    expect((await bench(small)).status).toBe(409);
    leaving.abort();
    await waitUntil(async () => {
      const again = await bench(small);
      await again.body?.cancel();
      return again.status === 200;
    });
  });

  it('is told what is wrong with what it asks', async () => {
    for (const wrong of [{}, { streams: 65 }, { requests: 0 }, { extra: 1 }, { model: 'nobody' }]) {
      const body = { streams: 1, requests: 1, promptTokens: 1, answerTokens: 1, ...wrong };
      const { status } = await bench(Object.keys(wrong).length === 0 ? {} : body);
      expect(status, JSON.stringify(wrong)).toBe('model' in wrong ? 404 : 400);
    }
  });
});
