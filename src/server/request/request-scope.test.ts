// Clients that come, wait, leave, and a server that closes, through the whole server with the embedded model.

import { once } from 'node:events';
import { connect } from 'node:net';
import { describe, expect, it, vi } from 'vitest';
import { eventually } from '../../../test/support/eventually.ts';
import { endless, messages, postJson, start, startLoading } from '../../../test/support/keyed-server.ts';

describe('the probes', () => {
  it('find the server alive while its engine restarts, but not ready', async () => {
    const { app, pool } = await start();
    vi.spyOn(pool.engine, 'stats').mockRejectedValue(new Error('the engine is restarting'));
    const health = await app.inject({ url: '/health' });
    expect(health.statusCode).toBe(200);
    expect(health.json()).toMatchObject({
      status: 'degraded',
      engines: [{ model: 'demo', state: 'restarting', problem: 'the engine is restarting' }],
    });
    const ready = await app.inject({ url: '/ready' });
    expect(ready.statusCode).toBe(503);
    expect(ready.json().problem).toContain('restarting');
    vi.restoreAllMocks();
    expect((await app.inject({ url: '/health' })).json()).toMatchObject({ status: 'ok' });
    expect((await app.inject({ url: '/ready' })).statusCode).toBe(200);
  });
});

describe('the queue', () => {
  it('refuses at once what is beyond it', async () => {
    const { server, open } = await startLoading({ settings: { maxQueuedRequests: 2 } });
    const { app, pool } = server;
    // An injected request starts when it is awaited.
    const ask = async () =>
      app.inject({ method: 'POST', url: '/v1/chat/completions', payload: { messages, max_tokens: 1 } });
    const waiting = [ask(), ask()];
    const refused = await ask();
    expect(refused.statusCode).toBe(429);
    expect(refused.json().error.code).toBe('queue_full');
    expect(Number(refused.headers['retry-after'])).toBeGreaterThan(0);
    open();
    expect((await Promise.all(waiting)).map(({ statusCode }) => statusCode)).toEqual([200, 200]);
    expect((await ask()).statusCode).toBe(200);
    expect(pool.leases).toBe(0);
  });
});

describe('the default model', () => {
  it('has one queue, by whatever name it is asked for', async () => {
    const { server, open } = await startLoading({ settings: { maxQueuedRequests: 3 } });
    const ask = async (model?: string) =>
      server.app.inject({
        method: 'POST',
        url: '/v1/chat/completions',
        payload: { messages, max_tokens: 1, ...(model === undefined ? {} : { model }) },
      });
    const waiting = [ask(), ask('demo'), ask('default')];
    const refused = await Promise.all([ask(), ask('demo'), ask('default')]);
    expect(refused.map(({ statusCode }) => statusCode)).toEqual([429, 429, 429]);
    open();
    expect((await Promise.all(waiting)).map(({ statusCode }) => statusCode)).toEqual([200, 200, 200]);
  });
});

describe('a client that leaves', () => {
  it.each([false, true])('is computed for no longer, streamed %s', async (stream) => {
    const server = await start();
    const url = await server.listen();
    const controller = new AbortController();
    const { signal } = controller;
    const asked = postJson(`${url}/v1/chat/completions`, { ...endless, stream }, { signal });
    const failed = asked.then(async (response) => {
      for await (const _ of response.body ?? []);
    });
    failed.catch(() => {});
    await eventually(async () =>
      expect((await server.pool.engine.stats()).generatedTokens).toBeGreaterThan(5),
    );
    controller.abort();
    await expect(failed).rejects.toThrow();
    await eventually(async () => {
      expect((await server.pool.engine.stats()).requests.cancelled).toBe(1);
    });
    expect((await server.pool.engine.stats()).generatedTokens).toBeLessThan(3000);
    await eventually(() => expect(server.pool.leases).toBe(0));
    expect(server.log.find(({ msg }) => msg === 'completion')).toMatchObject({ outcome: 'client_left' });
  });

  it('while its model loads holds nothing when that is done', async () => {
    const { server, open } = await startLoading();
    const url = await server.listen();
    const controller = new AbortController();
    const asked = postJson(`${url}/v1/chat/completions`, endless, { signal: controller.signal });
    asked.catch(() => {});
    await new Promise((resolve) => setTimeout(resolve, 50));
    controller.abort();
    await expect(asked).rejects.toThrow();
    await new Promise((resolve) => setTimeout(resolve, 20));
    open();
    await eventually(() => expect(server.pool.leases).toBe(0));
    expect((await server.pool.engine.stats()).requests.submitted).toBe(0);
  });
});

describe('closing', () => {
  it('does not wait for a connection that has sent nothing', async () => {
    const server = await start();
    const cutOff = vi.spyOn(server.app.server, 'closeAllConnections');
    const { port } = new URL(await server.listen());
    const accepted = once(server.app.server, 'connection');
    const silent = connect(Number(port), '127.0.0.1');
    await accepted;
    const closed = once(silent, 'close');
    await server.app.close();
    await closed;
    expect(cutOff).not.toHaveBeenCalled();
  });

  it('refuses newcomers, and lets running requests end', async () => {
    const server = await start();
    const url = await server.listen();
    const post = (body: object) => postJson(`${url}/v1/chat/completions`, body);
    const running = post({ ...endless, max_tokens: 300 });
    await eventually(async () => {
      expect((await server.pool.engine.stats()).generatedTokens).toBeGreaterThan(0);
    });
    const drained = server.app.drain(60_000);
    const refused = await post({ messages });
    expect(refused.status).toBe(503);
    expect(await refused.json()).toMatchObject({ error: { code: 'shutting_down' } });
    expect((await fetch(`${url}/ready`)).status).toBe(503);
    const answer = (await (await running).json()) as { usage: { completion_tokens: number } };
    expect(answer.usage.completion_tokens).toBe(300);
    await drained;
  });

  it('ends what runs beyond the limit, and says so', async () => {
    const server = await start();
    const url = await server.listen();
    const response = await postJson(`${url}/v1/chat/completions`, { ...endless, stream: true });
    const drained = server.app.drain(30);
    const text = await response.text();
    await drained;
    expect(text).toContain('shutting_down');
    expect(text).toContain('ended this request before its answer was complete');
    expect(text).not.toContain('[DONE]');
  });
});
