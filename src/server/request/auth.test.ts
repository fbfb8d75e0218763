// Who may ask for what: keys, tiers, limits and administrators, through the whole server with the embedded model.

import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import Libsql from 'libsql';
import { describe, expect, it, vi } from 'vitest';
import { messages, start, startWithKeys } from '../../../test/support/keyed-server.ts';
import { opened } from '../../../test/support/opened.ts';
import type { KeyStatus } from '../../store/key-ring.ts';
import type { Bench } from '../context.ts';
import { bindRefusal } from './auth.ts';

describe('without keys', () => {
  it('this machine is served and others are not, unless allowed', async () => {
    const { app } = await start();
    const ask = (remoteAddress: string) => app.inject({ url: '/v1/models', remoteAddress });
    for (const here of ['127.0.0.1', '::1', '::ffff:127.0.0.1'])
      expect((await ask(here)).statusCode).toBe(200);
    expect((await ask('10.0.0.7')).statusCode).toBe(401);
    expect((await ask('::ffff:10.0.0.7')).statusCode).toBe(401);
    const named = await app.inject({ url: '/v1/models', headers: { host: 'evil.example:80' } });
    expect(named.statusCode).toBe(401);
    for (const host of ['127.0.0.1:8080', '[::1]:8080', 'localhost']) {
      expect((await app.inject({ url: '/v1/models', headers: { host } })).statusCode).toBe(200);
    }
    const open = await start({ settings: { allowAnonymous: true } });
    expect((await open.app.inject({ url: '/v1/models', remoteAddress: '10.0.0.7' })).statusCode).toBe(200);
  });

  it('what a proxy on this machine hands on is not local', async () => {
    const { app } = await start();
    for (const headers of [
      { 'x-forwarded-for': '10.0.0.7' },
      { 'x-forwarded-for': '127.0.0.1' },
      { forwarded: 'for=10.0.0.7' },
      { via: '1.1 proxy' },
      { 'x-real-ip': '10.0.0.7' },
    ]) {
      expect((await app.inject({ url: '/v1/models', headers })).statusCode).toBe(401);
    }
  });

  it('forwarding headers of a trusted proxy count, and of no other', async () => {
    const { app } = await start({ settings: { trustedProxies: ['loopback', '10.0.0.1'] } });
    const status = async (forwardedFor: string, remoteAddress = '127.0.0.1') => {
      const headers = { 'x-forwarded-for': forwardedFor };
      return (await app.inject({ url: '/v1/models', headers, remoteAddress })).statusCode;
    };
    expect(await status('127.0.0.1')).toBe(200);
    expect(await status('::1')).toBe(200);
    expect(await status('10.0.0.7')).toBe(401);
    // What the client itself claims stands left of what the proxy adds.
    expect(await status('127.0.0.1, 10.0.0.7')).toBe(401);
    // Its own machine is not this one.
    expect(await status('127.0.0.1', '10.0.0.1')).toBe(401);
    const headers = { via: '1.1 proxy' };
    expect((await app.inject({ url: '/v1/models', headers })).statusCode).toBe(401);
  });

  it('the server refuses to listen to the world', async () => {
    expect(await bindRefusal('0.0.0.0', undefined, false)).toContain('no API keys');
    expect(await bindRefusal('::', undefined, false)).toContain('no API keys');
    expect(await bindRefusal('0.0.0.0', undefined, true)).toBeUndefined();
    for (const host of ['127.0.0.1', '::1', 'localhost']) {
      expect(await bindRefusal(host, undefined, false)).toBeUndefined();
    }
  });

  it('everyone is one, and shares the cache', async () => {
    const { app } = await start();
    const payload = { messages: [{ role: 'user', content: 'Milo the fox. '.repeat(40) }], max_tokens: 1 };
    const ask = () => app.inject({ method: 'POST', url: '/v1/chat/completions', payload });
    await ask();
    expect((await ask()).json().usage.prompt_tokens_details.cached_tokens).toBeGreaterThan(0);
  });

  it('callers at the machine administer, but no page of another site does', async () => {
    const { app } = await start();
    const status = async (origin?: string) =>
      (await app.inject({ url: '/admin/stats', headers: origin === undefined ? {} : { origin } })).statusCode;
    expect(await status()).toBe(200);
    expect(await status('http://localhost:80')).toBe(200);
    for (const origin of [
      'http://elsewhere.example',
      'http://localhost:81',
      'https://localhost:80',
      'null',
    ]) {
      expect(await status(origin)).toBe(403);
    }
  });

  it('no other caller administers, though all are served', async () => {
    const { app } = await start({ settings: { allowAnonymous: true } });
    const far = { remoteAddress: '192.0.2.1' };
    expect((await app.inject({ url: '/v1/models', ...far })).statusCode).toBe(200);
    expect((await app.inject({ url: '/admin/stats', ...far })).statusCode).toBe(403);
  });
});

describe('with keys', () => {
  it('only their holders are served', async () => {
    const { call, secrets } = await startWithKeys({ mine: {} });
    expect((await call(undefined, '/v1/models')).json().error.code).toBe('missing_api_key');
    const wrong = await call('cl-wrong', '/v1/models');
    expect(wrong.statusCode).toBe(401);
    expect(wrong.json().error).toMatchObject({ type: 'authentication_error', code: 'invalid_api_key' });
    expect((await call(secrets.mine, '/v1/models')).statusCode).toBe(200);
    for (const url of ['/health', '/ready', '/metrics', '/openapi.json', '/docs']) {
      expect((await call(undefined, url)).statusCode).toBe(200);
    }
  });

  it('their holders may send them in either header, but not two of them', async () => {
    const { server, secrets } = await startWithKeys({ mine: {}, other: {} });
    const ask = (headers: Record<string, string>) => server.app.inject({ url: '/v1/models', headers });
    const bearer = `Bearer ${secrets.mine}`;
    expect((await ask({ 'x-api-key': secrets.mine })).statusCode).toBe(200);
    expect((await ask({ 'x-api-key': secrets.mine, authorization: bearer })).statusCode).toBe(200);
    expect((await ask({ 'x-api-key': 'cl-wrong' })).json().error.code).toBe('invalid_api_key');
    const both = await ask({ 'x-api-key': secrets.other, authorization: bearer });
    expect(both.statusCode).toBe(401);
    expect(both.json().error.code).toBe('conflicting_api_keys');
  });

  it('priority is that of the tier, and LOW under /v1/batch', async () => {
    const { server, call, secrets } = await startWithKeys({ fast: { tier: 'high' }, slow: { tier: 'low' } });
    const seen: number[] = [];
    server.pool.engine.monitor.subscribe({
      stats: ({ stats }) => seen.push(...stats.running.map(({ priority }) => priority)),
    });
    const priorityOf = async (key: string, url: string) => {
      seen.length = 0;
      // Long enough to be seen between two steps, though drafts make several tokens of each.
      await call(key, url, { messages, max_tokens: 60, ignore_eos: true });
      return new Set(seen);
    };
    expect(await priorityOf(secrets.fast, '/v1/chat/completions')).toEqual(new Set([0]));
    expect(await priorityOf(secrets.slow, '/v1/chat/completions')).toEqual(new Set([2]));
    expect(await priorityOf(secrets.fast, '/v1/batch/chat/completions')).toEqual(new Set([2]));
  });

  it('no request is served once the last one is revoked, until there is another', async () => {
    const { call, secrets, keyStore, server } = await startWithKeys({ mine: {} });
    expect((await call(secrets.mine, '/v1/models')).statusCode).toBe(200);
    await keyStore.revoke('mine', Date.now());
    for (const key of [secrets.mine, undefined]) {
      const refused = await call(key, '/v1/models');
      expect(refused.statusCode).toBe(401);
      expect(refused.json().error.message).toMatch(
        /every API key was revoked.*keys create.*--allow-anonymous/,
      );
    }
    expect(await bindRefusal('0.0.0.0', server.keys, false)).toBeUndefined();
    const made = await keyStore.createKey({ name: 'next', tier: 'normal', limits: {} }, Date.now());
    expect((await call(made.ok ? made.key : '', '/v1/models')).statusCode).toBe(200);
  });

  it('no request is served without a word after the last one is revoked, unless allowed', async () => {
    const { call, keyStore } = await startWithKeys({ mine: {} }, { settings: { allowAnonymous: true } });
    expect((await call(undefined, '/v1/models')).statusCode).toBe(401);
    await keyStore.revoke('mine', Date.now());
    expect((await call(undefined, '/v1/models')).statusCode).toBe(200);
  });

  it('limits answer 429 with when to come again, and where the key stands', async () => {
    const { call, secrets } = await startWithKeys({ mine: { limits: { requestsPerMinute: 2 } } });
    const ask = () => call(secrets.mine, '/v1/chat/completions', { messages, max_tokens: 1 });
    expect((await ask()).headers['x-ratelimit-remaining-requests']).toBe('1');
    await ask();
    const refused = await ask();
    expect(refused.statusCode).toBe(429);
    expect(refused.json().error).toMatchObject({ type: 'rate_limit_error', code: 'rate_limit_exceeded' });
    expect(Number(refused.headers['retry-after'])).toBeGreaterThan(0);
    expect(Number(refused.headers['retry-after'])).toBeLessThanOrEqual(30);
    expect(refused.headers['x-ratelimit-limit-requests']).toBe('2');
  });

  it('unused tokens of a limit are given back', async () => {
    const { call, secrets } = await startWithKeys({ mine: { limits: { tokensPerMinute: 5000 } } });
    for (let n = 0; n < 4; n++) {
      const { statusCode } = await call(secrets.mine, '/v1/chat/completions', {
        messages,
        max_tokens: 4000,
        stop: ' ',
      });
      expect(statusCode).toBe(200);
    }
  });

  it('a request without max_tokens is charged what is usual, not all that the context would hold', async () => {
    const { call, secrets } = await startWithKeys({ mine: { limits: { dailyTokens: 1000 } } });
    const ask = () => call(secrets.mine, '/v1/chat/completions', { messages, stop: ' ' });
    let left = 1000;
    for (let n = 0; n < 3; n++) {
      const { statusCode, headers, json } = await ask();
      expect(statusCode).toBe(200);
      const { prompt_tokens, total_tokens } = json().usage;
      const held = left - Number(headers['x-ratelimit-remaining-daily-tokens']);
      expect(held).toBeGreaterThan(prompt_tokens);
      expect(held).toBeLessThanOrEqual(prompt_tokens + 256);
      left -= total_tokens;
    }
  });

  it('a request that cannot have its usual answer is refused before it waits for a model', async () => {
    let loads = 0;
    const loading = async () => {
      loads++;
    };
    const { call, secrets } = await startWithKeys(
      { mine: { limits: { tokensPerMinute: 270 } } },
      { pool: { loading } },
    );
    const ask = (body: object) => call(secrets.mine, '/v1/chat/completions', { messages, ...body });
    const { total_tokens } = (await ask({ max_tokens: 8 })).json().usage;
    const refused = await ask({});
    expect(refused.statusCode).toBe(429);
    // A token of the prompt and 256 of an answer, at 4.5 a second.
    const missing = total_tokens + 257 - 270;
    expect(Number(refused.headers['retry-after-ms'])).toBeLessThanOrEqual((missing / 4.5) * 1000 + 1);
    expect(Number(refused.headers['retry-after-ms'])).toBeGreaterThan(1000);
    expect(loads).toBe(1);
    // It asks for less than is left.
    expect((await ask({ max_tokens: 8 })).statusCode).toBe(200);
  });

  it('usage is counted by key', async () => {
    const { call, secrets, usage } = await startWithKeys({ mine: {} });
    const { usage: told } = (
      await call(secrets.mine, '/v1/chat/completions', { messages, max_tokens: 4 })
    ).json();
    const [row] = await usage.report({});
    expect(row).toMatchObject({
      requests: 1,
      promptTokens: told.prompt_tokens,
      completionTokens: told.completion_tokens,
      errors: 0,
    });
  });

  it('no key learns what others have asked from the cache, unless it is shared', async () => {
    const long = [{ role: 'user', content: 'Milo the fox went to the lake and '.repeat(20) }];
    for (const settings of [{}, { shareCache: true }]) {
      const { call, secrets } = await startWithKeys({ a: {}, b: {} }, { settings });
      const cached = async (key: string) =>
        (await call(key, '/v1/chat/completions', { messages: long, max_tokens: 1 })).json().usage
          .prompt_tokens_details.cached_tokens;
      await cached(secrets.a);
      const other = await cached(secrets.b);
      if (settings.shareCache) expect(other).toBeGreaterThan(0);
      else expect(other).toBe(0);
      expect(await cached(secrets.a)).toBeGreaterThan(0);
    }
  });
});

describe('an admin key', () => {
  it('makes and revokes keys, and no other caller does', async () => {
    const { call, secrets } = await startWithKeys({ boss: { admin: true }, mine: {} });
    expect((await call(secrets.mine, '/admin/keys')).statusCode).toBe(403);
    const made = await call(secrets.boss, '/admin/keys', {
      name: 'new',
      tier: 'low',
      requests_per_minute: 9,
    });
    expect(made.statusCode).toBe(201);
    expect(made.json()).toMatchObject({ name: 'new', tier: 'low', admin: false, requests_per_minute: 9 });
    const { key } = made.json();
    expect((await call(key, '/v1/models')).statusCode).toBe(200);
    const listed = (await call(secrets.boss, '/admin/keys')).body;
    expect(listed).toContain('"new"');
    expect(listed).not.toContain(key);
    expect((await call(secrets.boss, '/admin/keys', { name: 'new' })).statusCode).toBe(409);
    expect((await call(secrets.boss, '/admin/keys', { name: 'x', teir: 'low' })).json().error.param).toBe(
      'teir',
    );
    expect((await call(secrets.boss, '/admin/keys/new', undefined, 'DELETE')).statusCode).toBe(200);
    expect((await call(key, '/v1/models')).statusCode).toBe(401);
    expect((await call(secrets.boss, '/admin/keys/new', undefined, 'DELETE')).statusCode).toBe(404);
  });

  it('sees the engines and loads models', async () => {
    const { call, secrets } = await startWithKeys({ boss: { admin: true } });
    await call(secrets.boss, '/v1/chat/completions', { messages, max_tokens: 2 });
    const stats = (await call(secrets.boss, '/admin/stats')).json();
    expect(stats.engines[0]).toMatchObject({ model: 'demo', stats: { generatedTokens: 2 } });
    expect((await call(secrets.boss, '/admin/models/load', { model: 'default' })).json().name).toBe('demo');
    expect((await call(secrets.boss, '/admin/models/unload', { model: 'demo' })).statusCode).toBe(200);
    expect((await call(secrets.boss, '/admin/models/load', { model: 'x' })).statusCode).toBe(404);
    expect((await call(secrets.boss, '/admin/usage')).json().data).toHaveLength(1);
  });

  it('gets an error where the database cannot be written, while known keys keep working', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'chairlift-access-'));
    const path = join(folder, 'a.db');
    opened.push(() => rmSync(folder, { recursive: true }));
    const { call, secrets, usage } = await startWithKeys({ boss: { admin: true } }, {}, path);
    const holder = new Libsql(path);
    try {
      holder.exec('begin exclusive');
      const refused = await call(secrets.boss, '/admin/keys', { name: 'new' });
      expect(refused.statusCode).toBe(503);
      expect(refused.json().error).toMatchObject({ code: 'store_unavailable' });
      const answer = await call(secrets.boss, '/v1/chat/completions', { messages, max_tokens: 2 });
      expect(answer.statusCode).toBe(200);
      const told = (await call(secrets.boss, '/admin/usage')).json().data;
      expect(told).toMatchObject([{ requests: 1, completionTokens: 2 }]);
      holder.exec('rollback');
      await usage.flush();
      expect((await call(secrets.boss, '/admin/keys', { name: 'new' })).statusCode).toBe(201);
      expect((await call(secrets.boss, '/admin/usage')).json().data).toEqual(told);
    } finally {
      holder.close();
    }
  });

  it('watches steps and requests as they happen', async () => {
    const { server, secrets, call } = await startWithKeys({ boss: { admin: true } });
    const url = await server.listen();
    const controller = new AbortController();
    const headers = { authorization: `Bearer ${secrets.boss}` };
    const response = await fetch(`${url}/admin/events`, { headers, signal: controller.signal });
    await call(secrets.boss, '/v1/chat/completions', { messages, max_tokens: 3 });
    let seen = '';
    for await (const chunk of response.body ?? []) {
      seen += Buffer.from(chunk).toString();
      if (seen.includes('event: request')) break;
    }
    controller.abort();
    expect(seen.match(/event: step/g)?.length).toBeGreaterThanOrEqual(3);
    expect(seen).toContain('"completionTokens":3');
  });
});

const order = { streams: 1, requests: 1, promptTokens: 1, answerTokens: 1 };
/** Runs until it is ended. */
const endlessBench: Bench = (_order, { signal }) =>
  new Promise((_, reject) => {
    signal.addEventListener('abort', () => reject(signal.reason));
  });

async function startWithAdmins() {
  const keys = { boss: { admin: true }, second: { admin: true } };
  const { server, secrets, call } = await startWithKeys(keys, { bench: endlessBench });
  const url = await server.listen();
  const headers = { authorization: `Bearer ${secrets.second}` };
  const revoke = () => call(secrets.boss, '/admin/keys/second', undefined, 'DELETE');
  return { url, headers, revoke };
}

it.each(['/admin/events', '/live'])('%s ends when its key is revoked', async (path) => {
  const { url, headers, revoke } = await startWithAdmins();
  const response = await fetch(url + path, { headers });
  expect(response.status).toBe(200);
  const whole = response.text();
  expect((await revoke()).statusCode).toBe(200);
  expect(await whole).toContain('event: ');
});

it('a job ends when its key is revoked, and says why', async () => {
  const { url, headers, revoke } = await startWithAdmins();
  const body = JSON.stringify(order);
  const json = { ...headers, 'content-type': 'application/json' };
  const response = await fetch(`${url}/admin/bench`, { method: 'POST', headers: json, body });
  expect(response.status).toBe(200);
  const whole = response.text();
  await revoke();
  expect(await whole).toContain('"code":"invalid_api_key"');
});

it('what this machine opened before there were keys ends with the first one', async () => {
  let status: KeyStatus = 'none';
  const find = async () => undefined;
  const keys = { status: async () => status, findByKey: find, findById: find };
  const { listen } = await start({ keys });
  const response = await fetch(`${await listen()}/admin/events`);
  expect(response.status).toBe(200);
  const whole = response.text();
  status = 'live';
  expect(await whole).toContain('event: models');
});

it('a feed stays while it cannot be checked whether its key is known', async () => {
  const admin = { id: 'key_1', name: 'boss', prefix: 'cl-', tier: 'normal', admin: true } as const;
  const record = { ...admin, limits: {}, createdMs: 0 };
  const findByKey = vi.fn().mockResolvedValue(record);
  const keys = { status: async () => 'live' as const, findByKey, findById: async () => record };
  const { listen } = await start({ keys });
  const headers = { authorization: 'Bearer cl-1' };
  const response = await fetch(`${await listen()}/admin/events`, { headers });
  let over = false;
  const whole = response.text().finally(() => {
    over = true;
  });
  const asked = async (answer: unknown, times: number) => {
    findByKey.mockClear().mockResolvedValue(answer);
    await vi.waitUntil(() => findByKey.mock.calls.length >= times, { timeout: 60_000 });
  };
  await asked('unsure', 2);
  expect(over).toBe(false);
  await asked({ ...record, admin: false }, 1);
  await whole;
});
