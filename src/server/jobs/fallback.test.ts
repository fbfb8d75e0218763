// Upstreams that stand in for local models: when they do, when they do not, and how that is told.

import { describe, expect, it } from 'vitest';
import { endless, messages, postJson, start, startLoading } from '../../../test/support/keyed-server.ts';
import type { TestServer } from '../../../test/support/test-server.ts';
import {
  beginStream,
  delta,
  finish,
  freePort,
  standIn,
  upstreamsFrom,
} from '../../../test/support/upstream-servers.ts';
import type { AcquireFailure, AcquireResult, ModelPool } from '../../pool/model-pool.ts';
import type { ServedModel } from '../../pool/served-model.ts';
import { acquireOrFallBack } from './fallback.ts';

const chat = { messages, max_tokens: 5 };

/** An upstream whose model stands in for `demo`. */
async function substitute(model: object = {}) {
  const upstream = await standIn((response) => {
    const send = beginStream(response);
    for (const data of [delta('From afar'), finish(), '[DONE]']) send(data);
    response.end();
  });
  const models = [{ name: 'remote', as: 'far', fallbackFor: ['demo'], ...model }];
  return { upstream, upstreams: upstreamsFrom({ name: 'up', url: upstream.url, models }) };
}

const ask = ({ app }: TestServer, payload: object = chat, url = '/v1/chat/completions') =>
  app.inject({ method: 'POST', url, payload });

const contentOf = (answer: { json(): { choices: { message: { content: string } }[] } }) =>
  answer.json().choices[0]?.message.content;

describe('a request for a model that is loading', () => {
  it('is answered by the upstream, says so everywhere, and the load goes on', async () => {
    const { upstreams } = await substitute();
    const { server, open } = await startLoading({ upstreams });
    const answer = await ask(server);
    expect(contentOf(answer)).toBe('From afar');
    expect(answer.json().model).toBe('far');
    expect(answer.headers).toMatchObject({ 'x-chairlift-upstream': 'up', 'x-chairlift-fallback': 'loading' });
    const id = answer.headers['x-request-id'];
    const upstream = { name: 'up', model: 'remote', fallback: { model: 'demo', reason: 'loading' } };
    expect((await server.app.inject({ url: `/requests/${id}` })).json()).toMatchObject({
      model: 'far',
      upstream,
    });
    expect(server.log.find(({ requestId }) => requestId === id)).toMatchObject({ upstream });
    expect((await server.app.inject({ url: '/metrics' })).body).toMatch(
      /chairlift_upstream_fallbacks_total\{upstream="up",model="demo",reason="loading"\} 1/,
    );
    expect(server.pool.leases).toBe(0);
    open();
    const later = await ask(server);
    expect(later.json().model).toBe('demo');
    expect(later.headers['x-chairlift-upstream']).toBeUndefined();
    // The lease that came too late was given back.
    await expect.poll(() => server.pool.leases).toBe(0);
  });

  it('waits for it first, as long as the operator says', async () => {
    const { upstreams } = await substitute({ wait: 60 });
    const { server, open } = await startLoading({ upstreams });
    const asked = ask(server);
    setTimeout(open, 100);
    expect((await asked).json().model).toBe('demo');
  });

  it('waits where it asks for what the upstream could not be asked', async () => {
    const { upstreams, upstream } = await substitute();
    const { server, open } = await startLoading({ upstreams });
    const asked = [
      ask(server, { ...chat, min_p: 0.1 }),
      ask(server, { ...chat, logit_bias: { 5: -1 } }),
      ask(server, { prompt: [1, 2, 3], max_tokens: 2 }, '/v1/completions'),
      server.app.inject({
        method: 'POST',
        url: '/v1/chat/completions',
        payload: chat,
        headers: { 'x-chairlift-via': 'a, b, c, d' },
      }),
    ];
    setTimeout(open, 100);
    for (const answer of await Promise.all(asked)) expect(answer.json().model, answer.body).toBe('demo');
    expect(upstream.requests).toEqual([]);
  });

  it('waits, and says so, where the upstream does not take it', async () => {
    let load = () => {};
    const upstream = await standIn((response) => {
      response.writeHead(429, { 'retry-after': '9' });
      response.end();
      load();
    });
    const models = [{ name: 'remote', as: 'far', fallbackFor: ['demo'] }];
    const upstreams = upstreamsFrom({ name: 'up', url: upstream.url, models });
    for (const stream of [false, true]) {
      const { server, open } = await startLoading({ upstreams });
      load = open;
      const answer = await ask(server, { ...chat, stream });
      expect(answer.statusCode).toBe(200);
      expect(answer.body).toMatch(/"model":"demo"/);
      expect(answer.headers['x-chairlift-upstream']).toBeUndefined();
      expect(answer.headers['x-chairlift-fallback']).toBeUndefined();
      expect(answer.headers['x-chairlift-warning']).toMatch(
        /waited for its model: the upstream 'up' takes no more/,
      );
      const { data } = (await server.app.inject({ url: '/requests' })).json();
      expect(data).toMatchObject([{ model: 'demo', outcome: 'ok' }]);
    }
    expect(upstream.requests).toHaveLength(2);
  });

  it('waits where no upstream was said to stand in', async () => {
    const { upstreams, upstream } = await substitute({ fallbackFor: ['another'] });
    const { server, open } = await startLoading({ upstreams });
    const asked = ask(server);
    setTimeout(open, 100);
    expect((await asked).json().model).toBe('demo');
    expect(upstream.requests).toEqual([]);
  });
});

describe('a request for a model that cannot be had', () => {
  const asked = (failure: AcquireFailure) => {
    const pool = { acquire: async () => ({ ok: false, failure, message: 'no' }) } as Pick<
      ModelPool,
      'acquire'
    >;
    return acquireOrFallBack(pool as ModelPool, 'demo', new AbortController().signal);
  };

  it('goes to the upstream where another server would mend it, and nowhere else', async () => {
    await expect(asked('no-memory')).rejects.toMatchObject({ reason: 'does-not-fit' });
    await expect(asked('load-failed')).rejects.toMatchObject({ reason: 'failed' });
    await expect(asked('engine-died')).rejects.toMatchObject({ reason: 'failed' });
    await expect(asked('closing')).rejects.toMatchObject({ code: 'shutting_down' });
    await expect(asked('unknown-model')).rejects.toMatchObject({ code: 'model_not_found' });
  });

  it('holds no lease that comes after its client has left', async () => {
    const leaving = new AbortController();
    let give = (_: AcquireResult) => {};
    const acquiring = new Promise<AcquireResult>((resolve) => {
      give = resolve;
    });
    let released = 0;
    const pool = { acquire: () => acquiring } as Pick<ModelPool, 'acquire'>;
    const waiting = acquireOrFallBack(pool as ModelPool, 'demo', leaving.signal, false, 60_000);
    leaving.abort(new Error('gone'));
    await expect(waiting).rejects.toThrow('gone');
    give({ ok: true, lease: { model: {} as ServedModel, release: () => released++ } });
    await expect.poll(() => released).toBe(1);
  });
});

describe('a request for a model that is busy', () => {
  it('goes to the upstream where the queue is full', async () => {
    const { upstreams } = await substitute();
    const { server, open } = await startLoading({ upstreams, settings: { maxQueuedRequests: 1 } });
    // Waits in the queue for its model: no upstream could be asked for this.
    const waiting = Promise.resolve(ask(server, { ...chat, min_p: 0.1 }));
    await expect.poll(async () => (await ask(server)).headers['x-chairlift-fallback']).toBe('queue-full');
    expect(contentOf(await ask(server))).toBe('From afar');
    open();
    expect((await waiting).json().model).toBe('demo');
  });

  it('goes to the upstream where it would wait longer than the operator allows, by what was measured', async () => {
    const { upstreams } = await substitute({ wait: 0.02 });
    const server = await start({ upstreams, pool: { maxBatchSize: 1 } });
    const url = `${await server.listen()}/v1/chat/completions`;
    expect((await ask(server)).json().model).toBe('demo');
    const leaving = new AbortController();
    const left = [1, 2, 3].map(() =>
      postJson(url, { ...endless, min_p: 0.01, stream: true }, { signal: leaving.signal }).catch(() => {}),
    );
    await expect.poll(async () => (await server.pool.engine.stats()).queues[1]?.waiting).toBe(2);
    const answer = await ask(server);
    expect(answer.headers['x-chairlift-fallback']).toBe('long-wait');
    leaving.abort();
    await Promise.all(left);
  });
});

describe('two servers that are each other’s upstream', () => {
  it('do not send a request back and forth', async () => {
    const port = await freePort();
    const first = await start({
      upstreams: upstreamsFrom({ name: 'second', url: `http://127.0.0.1:${port}/v1`, models: ['loop'] }),
    });
    const second = await start({
      upstreams: upstreamsFrom({ name: 'first', url: `${await first.listen()}/v1`, models: ['loop'] }),
    });
    await second.app.listen({ host: '127.0.0.1', port });
    const answer = await ask(first, { ...chat, model: 'loop' });
    expect(answer.statusCode).toBe(502);
    expect(answer.json().error.message).toMatch(
      /^the upstream 'second' answered 502: the upstream 'first' answered 508: .* through this one before/,
    );
    const ended = [first, second].map(({ log }) => log.filter(({ outcome }) => outcome !== undefined).length);
    expect(ended).toEqual([1, 1]);
  });
});
