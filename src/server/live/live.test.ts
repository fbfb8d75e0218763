// What the page is sent, over real sockets.

import { get, type IncomingMessage } from 'node:http';
import { describe, expect, it, vi } from 'vitest';
import { eventually } from '../../../test/support/eventually.ts';
import { endless, messages, postJson, start, startWithKeys } from '../../../test/support/keyed-server.ts';
import { opened } from '../../../test/support/opened.ts';
import { applyChange } from '../../engine/live/snapshot.ts';
import type {
  HistoryPoint,
  LiveSnapshot,
  LiveTick,
  RefusedRequest,
  RequestBrief,
  RequestTrace,
} from './live-event.ts';

interface Heard {
  readonly events: {
    readonly raw: string;
    readonly tick: LiveTick;
    /** Where it is one. */
    readonly snapshot: LiveSnapshot | undefined;
  }[];
  /** What it was sent before all else. */
  readonly history: readonly HistoryPoint[];
  readonly response: IncomingMessage;
  leave(): void;
}

async function view(url: string, key: string): Promise<Heard> {
  const request = get(`${url}/live`, { headers: { authorization: `Bearer ${key}` } });
  const response = await new Promise<IncomingMessage>((resolve) => request.once('response', resolve));
  const events: Heard['events'] = [];
  const history: HistoryPoint[] = [];
  let text = '';
  response.on('error', () => {});
  response.setEncoding('utf8').on('data', (piece: string) => {
    text += piece;
    for (let end = text.indexOf('\n\n'); end >= 0; end = text.indexOf('\n\n')) {
      const raw = text.slice(0, end);
      text = text.slice(end + 2);
      const [, event = '', data = ''] = /^event: (\w+)\ndata: (.*)$/.exec(raw) ?? [];
      if (event === '') continue;
      const tick = JSON.parse(data);
      if (event === 'history') {
        history.push(...tick);
        continue;
      }
      events.push({ raw, tick, snapshot: event === 'snapshot' ? tick : undefined });
    }
  });
  const leave = () => {
    request.destroy();
  };
  opened.push(leave);
  return { events, history, response, leave };
}

const keys = { boss: { admin: true }, guest: {}, other: {} } as const;

async function startLive(options: Parameters<typeof startWithKeys>[1] = {}) {
  const started = await startWithKeys(keys, options);
  const url = await started.server.listen();
  const ask = (key: string, body: object, id?: string, signal?: AbortSignal) =>
    postJson(`${url}/v1/chat/completions`, body, { key, ...(id && { id }), ...(signal && { signal }) });
  return { ...started, url, ask };
}

describe('the live feed', () => {
  it('begins with the hour before', async () => {
    const { url, ask, secrets } = await startLive();
    await (await ask(secrets.guest, { messages, max_tokens: 5 })).text();
    let viewer = await view(url, secrets.boss);
    // The five seconds in which it happened must be over.
    await eventually(async () => {
      viewer.leave();
      viewer = await view(url, secrets.boss);
      await eventually(() => expect(viewer.events.length).toBeGreaterThan(0));
      expect(viewer.history).toHaveLength(1);
    }, 1000);
    const [point] = viewer.history;
    expect(point).toMatchObject({ generatedTokens: 5, firstToken: { p50: expect.any(Number) } });
    expect(point?.promptTokens).toBeGreaterThan(0);
    expect(Math.abs((point?.atMs ?? 0) - Date.now())).toBeLessThan(60_000);
  });

  it('is for admins alone', async () => {
    const { call, secrets } = await startWithKeys(keys);
    expect((await call(undefined, '/live')).statusCode).toBe(401);
    expect((await call(secrets.guest, '/live')).statusCode).toBe(403);
  });

  it('begins with a snapshot and goes on with ticks of running sequences, steps and blocks', async () => {
    const { server, secrets, url, ask } = await startLive();
    const { events } = await view(url, secrets.boss);
    await eventually(() => expect(events.length).toBeGreaterThan(1));
    const aborted = new AbortController();
    const answer = ask(secrets.guest, { ...endless, stream: true }, 'mine', aborted.signal);
    await eventually(() => {
      // In any tick: a fast machine may be done with the answer before this is looked at again.
      const engines = events.flatMap(({ tick }) => tick.engines.slice(0, 1));
      const sequence = { lane: 0, requestId: 'mine', tier: 'normal', phase: 'decode' };
      expect(engines.flatMap(({ running }) => running)).toContainEqual(expect.objectContaining(sequence));
      const steps = engines.flatMap(({ timeline }) => timeline);
      expect(steps.map(({ sequences }) => sequences)).toContainEqual([[0, 1, 1]]);
      expect(engines.some(({ generatedTokens }) => generatedTokens > 0)).toBe(true);
    });
    aborted.abort();
    await answer.catch(() => {});
    await eventually(() =>
      expect(events.flatMap(({ tick }) => tick.ended)).toMatchObject([
        { requestId: 'mine', outcome: 'client_left', model: 'demo' },
      ]),
    );
    await (await ask(secrets.guest, { messages, max_tokens: 3 })).text();
    await eventually(() => expect(events.at(-1)?.tick.firstToken?.p50).toBeGreaterThan(0));
    const [first, ...others] = events;
    expect(others.every(({ snapshot }) => snapshot === undefined)).toBe(true);
    expect(first?.snapshot).toMatchObject({ version: '0.0.0-test', tickMs: 250 });
    const { pool } = server.pool.engine.engine.scheduler.tables;
    // The answer's end may be in a tick that is still to come.
    await eventually(() => {
      const engines = events.flatMap(({ tick }) => tick.engines);
      const map = engines.reduce<Int32Array>(applyChange, new Int32Array(0));
      expect(map.length).toBe(pool.blockCount);
      for (const [block, state] of map.entries()) {
        expect(state, `block ${block}`).toBe(pool.isCached(block) ? 2 : pool.hasMemory(block) ? 1 : 0);
      }
    });
  });

  it('gives two viewers the same bytes, and takes snapshots of the engine only while a viewer is subscribed', async () => {
    const { server, secrets, url } = await startLive();
    const snapshots = vi.spyOn(server.pool.engine.engine, 'snapshot');
    const end = vi.spyOn(server.pool.engine.engine, 'endSnapshots');
    const one = await view(url, secrets.boss);
    const two = await view(url, secrets.boss);
    await eventually(() => expect(two.events.length).toBeGreaterThan(4));
    const raws = new Set(one.events.map(({ raw }) => raw));
    for (const { raw } of two.events.slice(1, 4)) expect(raws).toContain(raw);
    expect(snapshots.mock.calls.length).toBeLessThanOrEqual(one.events.length + 2);
    one.leave();
    two.leave();
    await eventually(() => expect(end).toHaveBeenCalled());
    const before = snapshots.mock.calls.length;
    await new Promise((resolve) => setTimeout(resolve, 600));
    expect(snapshots.mock.calls.length).toBe(before);
  });

  it('ends when the server closes', async () => {
    const { server, secrets, url } = await startLive();
    const { response, events } = await view(url, secrets.boss);
    await eventually(() => expect(events.length).toBeGreaterThan(0));
    const ended = new Promise((resolve) => response.once('end', resolve));
    await Promise.all([ended, server.app.close()]);
  });
});

describe('the traces of requests', () => {
  const list = async (call: Awaited<ReturnType<typeof startLive>>['call'], key: string, query = '') =>
    (await call(key, `/requests${query}`)).json<{ data: RequestBrief[] }>().data;

  it('say what became of each, and when', async () => {
    const { call, secrets, ask } = await startLive();
    const long = [{ role: 'user', content: 'Tell me about foxes. '.repeat(20) }];
    await (await ask(secrets.guest, { messages: long, max_tokens: 4, n: 2 }, 'a-b.c:1')).text();
    const trace = (await call(secrets.guest, '/requests/a-b.c:1')).json<RequestTrace>();
    expect(trace).toMatchObject({
      requestId: 'a-b.c:1',
      keyName: 'guest',
      running: false,
      outcome: 'ok',
      generatedTokens: 8,
      endReasons: ['length', 'length'],
    });
    expect(trace.events.map(({ what }) => what).sort()).toEqual(
      ['admitted', 'admitted', 'arrived', 'ended', 'first-token', 'submitted', 'submitted'].sort(),
    );
    expect(trace.events.every(({ atMs }, i) => i === 0 || atMs >= 0)).toBe(true);
    expect(trace.lookups).toMatchObject([
      { choice: 0, cachedTokens: 0, why: 'new' },
      { choice: 1, why: 'end' },
    ]);
    expect(trace.prompt).toBeUndefined();
  });

  it("are shown to their own key and to admins, and others' to nobody", async () => {
    const { call, secrets, ask } = await startLive();
    for (const key of [secrets.guest, secrets.other]) {
      await (await ask(key, { messages, max_tokens: 1 }, 'same-id')).text();
    }
    expect((await list(call, secrets.boss)).length).toBe(2);
    expect((await list(call, secrets.boss, '?model=plain')).length).toBe(0);
    expect((await list(call, secrets.guest)).map(({ keyName }) => keyName)).toEqual(['guest']);
    const own = await call(secrets.guest, '/requests/same-id');
    expect(own.json<RequestTrace>()).toMatchObject({ keyName: 'guest' });
    await (await ask(secrets.other, { messages, max_tokens: 1 }, 'secret-id')).text();
    expect((await call(secrets.guest, '/requests/secret-id')).statusCode).toBe(404);
    expect((await call(secrets.boss, '/requests/secret-id')).statusCode).toBe(200);
  });

  it('can be asked for by the longest id a client may give, percent-encoded, too', async () => {
    const { call, secrets, ask } = await startLive();
    const id = `${'a:'.repeat(63)}zz`;
    await (await ask(secrets.guest, { messages, max_tokens: 1 }, id)).text();
    for (const url of [id, encodeURIComponent(id)]) {
      expect((await call(secrets.guest, `/requests/${url}`)).statusCode).toBe(200);
    }
  });

  it('are kept apart from what was refused before an engine heard of it', async () => {
    const { call, secrets, ask } = await startLive();
    const refused = await ask(secrets.guest, { messages, max_tokens: 1, logit_bias: { 99999999: 1 } });
    expect(refused.status).toBe(400);
    expect(await list(call, secrets.boss)).toEqual([]);
    await ask('cl-wrong', { messages });
    const refusalsFor = async (key: string) =>
      (await call(key, '/requests')).json<{ refusals: RefusedRequest[] }>().refusals;
    expect(await refusalsFor(secrets.boss)).toEqual([
      expect.objectContaining({ status: 401, code: 'invalid_api_key', route: 'POST /v1/chat/completions' }),
      expect.objectContaining({
        status: 400,
        keyName: 'guest',
        reason: expect.stringContaining('logit_bias'),
      }),
    ]);
    expect(await refusalsFor(secrets.guest)).toMatchObject([{ status: 400 }]);
    expect(await refusalsFor(secrets.other)).toEqual([]);
    await (await ask(secrets.guest, { messages, max_tokens: 0 })).text();
    expect((await list(call, secrets.boss)).every(({ running }) => !running)).toBe(true);
  });

  it('are kept apart by address where there are no keys, except for callers at the machine', async () => {
    const { app } = await start({ settings: { allowAnonymous: true } });
    const from = (remoteAddress: string, url: string, payload?: object) =>
      app.inject({
        url,
        remoteAddress,
        method: payload === undefined ? 'GET' : 'POST',
        ...(payload && { payload }),
      });
    const [one, other, here] = ['192.0.2.1', '192.0.2.2', '127.0.0.1'];
    const asked = await from(one, '/v1/chat/completions', { messages, max_tokens: 1 });
    const id = asked.headers['x-request-id'];
    for (const own of [one, here]) expect((await from(own, `/requests/${id}`)).statusCode).toBe(200);
    expect((await from(other, `/requests/${id}`)).statusCode).toBe(404);
    expect((await from(other, '/requests')).json<{ data: RequestBrief[] }>().data).toEqual([]);
    expect((await from(other, '/live')).statusCode).toBe(403);
    const who = { anonymous: true, keysNeeded: false };
    expect((await from(other, '/whoami')).json()).toMatchObject({ ...who, admin: false });
    expect((await from(here, '/whoami')).json()).toMatchObject({ ...who, admin: true });
  });

  it('say that another key has asked the same to admins alone', async () => {
    const { call, secrets, ask } = await startLive();
    const long = [{ role: 'user', content: 'Tell me about foxes. '.repeat(20) }];
    await (await ask(secrets.guest, { messages: long, max_tokens: 1 }, 'first')).text();
    await (await ask(secrets.other, { messages: long, max_tokens: 1 }, 'second')).text();
    const why = async (key: string) =>
      (await call(key, '/requests/second')).json<RequestTrace>().lookups[0]?.why;
    expect(await why(secrets.boss)).toBe('tenant');
    expect(await why(secrets.other)).toBe('new');
  });

  it('hold prompts only where prompts are logged', async () => {
    const { call, secrets, ask } = await startLive({ settings: { logPrompts: true } });
    await (await ask(secrets.guest, { messages, max_tokens: 1 }, 'logged')).text();
    const trace = (await call(secrets.guest, '/requests/logged')).json<RequestTrace>();
    expect(trace.prompt).toContain('Hello, who are you?');
  });

  it('cannot be asked for by a hostile id', async () => {
    const { call, secrets } = await startWithKeys(keys);
    const hostile = ['..%2f..%2fetc%2fpasswd', '%00', '__proto__', 'constructor', '%F0%9F%8E%BF'];
    for (const id of [...hostile, 'x'.repeat(90)]) {
      const { statusCode, body } = await call(secrets.boss, `/requests/${id}`);
      expect(statusCode, id).toBe(404);
      expect(JSON.parse(body), id).toMatchObject({ error: { code: 'request_not_found' } });
    }
  });
});

describe('whoami', () => {
  it('names the caller', async () => {
    const { call, secrets } = await startWithKeys(keys);
    expect((await call(undefined, '/whoami')).statusCode).toBe(401);
    expect((await call(secrets.boss, '/whoami')).json()).toEqual({
      version: '0.0.0-test',
      anonymous: false,
      admin: true,
      name: 'boss',
      tier: 'normal',
      keysNeeded: true,
      logPrompts: false,
      canPull: false,
      hasKeyStore: true,
      inFleet: false,
      here: { clients: true, admins: true },
    });
  });
});

describe('a benchmark of the server by itself', () => {
  const load = { streams: 1, requests: 1, promptTokens: 1, answerTokens: 1 };

  it('is for admins, where there is one', async () => {
    const { call, secrets } = await startWithKeys(keys);
    expect((await call(secrets.guest, '/admin/bench', load)).statusCode).toBe(403);
    expect((await call(secrets.boss, '/admin/bench', load)).statusCode).toBe(501);
  });

  it('says what went wrong where it comes to nothing, and can be asked for again', async () => {
    const bench = () => Promise.reject(new Error('no answer'));
    const { call, secrets } = await startWithKeys(keys, { bench });
    for (let n = 0; n < 2; n++) {
      const { statusCode, body } = await call(secrets.boss, '/admin/bench', load);
      expect(statusCode).toBe(200);
      expect(body).toMatch(/^event: error\ndata: .*"message":"no answer"/);
    }
  });
});
