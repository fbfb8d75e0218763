// What upstreams answer, and what becomes of it: honest errors, broken streams, limits of keys, clients that leave.

import type { ServerResponse } from 'node:http';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { messages, start, startWithKeys } from '../../../test/support/keyed-server.ts';
import { type TestServer, testServer } from '../../../test/support/test-server.ts';
import {
  beginStream,
  complete,
  delta,
  finish,
  nearTo,
  openStandIn,
  type StandIn,
  standIn,
  upstreamsFrom,
  usage,
} from '../../../test/support/upstream-servers.ts';

const chat = { model: 'far', messages, max_tokens: 20, temperature: 0 };

describe('what an upstream answers', () => {
  let behave: (response: ServerResponse) => void = () => {};
  let upstream: StandIn;
  let near: TestServer;
  beforeAll(async () => {
    upstream = await openStandIn((response) => behave(response));
    const { url } = upstream;
    const models = [{ name: 'remote', as: 'far' }];
    const named = { name: 'up', url, key: 'sk-secret', models };
    near = await testServer({
      upstreams: upstreamsFrom(named, {
        ...named,
        name: 'short',
        models: [{ name: 'remote', as: 'hasty' }],
        timeout: 0.05,
      }),
    });
  });
  afterAll(async () => {
    await near.close();
    upstream.close();
  });
  const post = (url: string, payload: object) => near.app.inject({ method: 'POST', url, payload });
  const told = async (answer: (response: ServerResponse) => void, model = 'far') => {
    behave = answer;
    const whole = await post('/v1/chat/completions', { ...chat, model });
    expect(whole.body + JSON.stringify(near.log)).not.toMatch(/sk-secret/);
    return whole;
  };

  it('is counted as the upstream counts it', async () => {
    const whole = await told(complete);
    expect(whole.json()).toMatchObject({
      choices: [{ message: { content: 'Good day' }, finish_reason: 'stop' }],
      usage: { prompt_tokens: 30, completion_tokens: 2, prompt_tokens_details: { cached_tokens: 10 } },
      timings: { cache_n: 10, prompt_n: 20, predicted_n: 2 },
    });
  });

  it('is read with reasoning and calls, which every protocol shows its own way', async () => {
    const call = (index: number, id: string | undefined, name: string | undefined, text: string) => ({
      choices: [
        {
          index: 0,
          delta: { tool_calls: [{ index, id, type: 'function', function: { name, arguments: text } }] },
        },
      ],
    });
    behave = (response) => {
      const send = beginStream(response);
      send({ choices: [{ index: 0, delta: { role: 'assistant', reasoning_content: 'Let me see.' } }] });
      send(call(0, 'call_a', 'weather', ''));
      send(call(0, undefined, undefined, '{"city":'));
      send(call(0, undefined, undefined, '"Bern"}'));
      send(call(1, 'call_b', 'time', '{}'));
      send(finish('tool_calls'));
      send('[DONE]');
      response.end();
    };
    const tools = [{ type: 'function', function: { name: 'weather', parameters: {} } }];
    const openai = (await post('/v1/chat/completions', { ...chat, tools })).json();
    expect(openai.choices[0]).toMatchObject({
      message: {
        content: null,
        reasoning_content: 'Let me see.',
        tool_calls: [
          { id: 'call_a', function: { name: 'weather', arguments: '{"city":"Bern"}' } },
          { id: 'call_b', function: { name: 'time', arguments: '{}' } },
        ],
      },
      finish_reason: 'tool_calls',
    });
    const anthropic = (await post('/v1/messages', { model: 'far', messages, max_tokens: 9 })).json();
    expect(anthropic.stop_reason).toBe('tool_use');
    expect(anthropic.content).toMatchObject([
      { type: 'thinking', thinking: 'Let me see.' },
      { type: 'tool_use', name: 'weather', input: { city: 'Bern' } },
      { type: 'tool_use', name: 'time', input: {} },
    ]);
    const ollama = (await post('/api/chat', { model: 'far', messages, stream: false })).json();
    expect(ollama.message).toMatchObject({
      thinking: 'Let me see.',
      tool_calls: [
        { function: { name: 'weather', arguments: { city: 'Bern' } } },
        { function: { name: 'time' } },
      ],
    });
  });

  it('may come whole, though a stream was asked for', async () => {
    const whole = await told((response) => {
      response.setHeader('content-type', 'application/json');
      const message = { role: 'assistant', content: 'Good day' };
      response.end(JSON.stringify({ choices: [{ index: 0, message, finish_reason: 'length' }], ...usage }));
    });
    expect(whole.json().choices[0]).toMatchObject({
      message: { content: 'Good day' },
      finish_reason: 'length',
    });
  });

  const refuse =
    (status: number, body: unknown, headers: Record<string, string> = {}) =>
    (response: ServerResponse) => {
      response.writeHead(status, headers);
      response.end(typeof body === 'string' ? body : JSON.stringify(body));
    };
  const error = (message: string, code?: string) => ({ error: { message, code } });

  it.each([
    [
      'a key it does not know',
      refuse(401, error('Incorrect API key provided: sk-secret')),
      502,
      'upstream_unauthorized',
      /^the upstream 'up' does not accept this server’s key$/,
    ],
    [
      'too many requests',
      refuse(429, error('Slow down'), { 'retry-after': '7' }),
      429,
      'upstream_rate_limited',
      /Slow down/,
    ],
    [
      'a mistake of the client',
      refuse(400, error('temperature must be at most 2')),
      400,
      'upstream_refused',
      /temperature must be/,
    ],
    [
      'a prompt that is too long',
      refuse(400, error('too long', 'context_length_exceeded')),
      400,
      'context_length_exceeded',
      /too long/,
    ],
    [
      'a model it does not have',
      refuse(404, error('no such model')),
      502,
      'upstream_failed',
      /answered 404: no such model/,
    ],
    ['its own failure', refuse(500, '<html>oops</html>'), 502, 'upstream_failed', /answered 500$/],
    [
      'a key within its words',
      refuse(503, error('upstream key sk-secret is broken')),
      502,
      'upstream_failed',
      /key \(key\) is broken/,
    ],
    [
      'another address',
      refuse(302, '', { location: 'http://169.254.169.254/' }),
      502,
      'upstream_failed',
      /redirects elsewhere/,
    ],
    ['no JSON', refuse(200, 'hello'), 502, 'upstream_invalid_answer', /not JSON/],
    [
      'something compressed',
      refuse(200, 'x', { 'content-encoding': 'gzip' }),
      502,
      'upstream_invalid_answer',
      /compressed/,
    ],
    [
      'an empty stream',
      refuse(200, '', { 'content-type': 'text/event-stream' }),
      502,
      'upstream_cut_off',
      /before it was complete/,
    ],
    [
      'events that are none',
      refuse(200, 'data: [1]\n\n', { 'content-type': 'text/event-stream' }),
      502,
      'upstream_invalid_answer',
      /no object/,
    ],
    [
      'an answer nobody asked for',
      refuse(200, `data: ${JSON.stringify(delta('x', 7))}\n\n`, { 'content-type': 'text/event-stream' }),
      502,
      'upstream_invalid_answer',
      /nobody asked for/,
    ],
    [
      'content that is no text',
      refuse(200, 'data: {"choices":[{"delta":{"content":5}}]}\n\n', { 'content-type': 'text/event-stream' }),
      502,
      'upstream_invalid_answer',
      /no text/,
    ],
    [
      'an error in its stream',
      refuse(200, `data: ${JSON.stringify(error('out of memory'))}\n\n`, {
        'content-type': 'text/event-stream',
      }),
      502,
      'upstream_failed',
      /out of memory/,
    ],
    [
      'filtered content',
      refuse(200, `data: ${JSON.stringify(finish('content_filter'))}\n\n`, {
        'content-type': 'text/event-stream',
      }),
      502,
      'upstream_content_filter',
      /for its content/,
    ],
  ])('becomes an honest error where it is %s', async (_, answer, status, code, message) => {
    const whole = await told(answer);
    expect(whole.statusCode).toBe(status);
    expect(whole.json().error).toMatchObject({ code, message: expect.stringMatching(message) });
    if (status === 429) expect(whole.headers['retry-after']).toBe('7');
  });

  it('is waited for no longer than the upstream’s time limit, before its beginning and within it', async () => {
    const silent = await told(() => {}, 'hasty');
    expect(silent.statusCode).toBe(504);
    expect(silent.json().error).toMatchObject({
      code: 'upstream_timeout',
      message: /did not answer for 0.05 s/,
    });
    const stuck = await told((response) => void beginStream(response)(delta('Good')), 'hasty');
    expect(stuck.json().error.code).toBe('upstream_timeout');
  });

  it('cannot come from nowhere', async () => {
    const near = await start({
      upstreams: upstreamsFrom({ name: 'up', url: 'http://127.0.0.1:9/v1', models: ['far'] }),
    });
    const answer = await near.app.inject({ method: 'POST', url: '/v1/chat/completions', payload: chat });
    expect(answer.statusCode).toBe(502);
    expect(answer.json().error).toMatchObject({ code: 'upstream_unreachable', message: /cannot be reached/ });
    expect(answer.body).not.toMatch(/127\.0\.0\.1/);
  });
});

describe('a stream of an upstream that breaks', () => {
  const broken = (response: ServerResponse) => {
    const send = beginStream(response);
    for (const text of ['One', ' two', ' three']) send(delta(text));
    setTimeout(() => response.destroy(), 20);
  };

  it.each([
    [
      '/v1/chat/completions',
      { messages },
      /data: \{"error":\{"message":"the upstream 'up' broke the connection/,
    ],
    ['/v1/responses', { input: 'x' }, /event: response.failed/],
    ['/v1/messages', { messages, max_tokens: 9 }, /event: error\ndata: \{"type":"error"/],
    ['/api/chat', { messages }, /\{"error":"the upstream 'up' broke the connection/],
  ])('ends with an error in the words of %s, after what had come', async (url, body, end) => {
    const { post } = await nearTo(broken);
    const answer = await post(url, { model: 'far', ...body, stream: true });
    expect(answer.statusCode).toBe(200);
    expect(answer.body).toMatch(/three/);
    expect(answer.body).toMatch(end);
    expect(answer.body).not.toMatch(/\[DONE\]/);
  });

  it('is charged with what was delivered, once; a whole one with what the upstream counted', async () => {
    let isBroken = true;
    const upstream = await standIn((response) => (isBroken ? broken(response) : complete(response)));
    const named = { name: 'up', url: upstream.url, models: ['far'] };
    const {
      secrets,
      call,
      usage: books,
    } = await startWithKeys({ mine: {} }, { upstreams: upstreamsFrom(named) });
    await call(secrets.mine, '/v1/chat/completions', { ...chat, stream: true });
    const [cut] = await books.report({});
    expect(cut).toMatchObject({ requests: 1, errors: 1, completionTokens: 3 });
    expect(cut?.promptTokens).toBeGreaterThan(5);
    isBroken = false;
    await call(secrets.mine, '/v1/chat/completions', { ...chat, stream: true });
    const [both] = await books.report({});
    expect(both).toMatchObject({ requests: 2, errors: 1, completionTokens: 5 });
    expect(both?.promptTokens).toBe((cut?.promptTokens ?? 0) + 30);
  });
});

describe('limits of a key', () => {
  it('shorten what an upstream is asked for, and end an answer that would take more', async () => {
    const upstream = await standIn((response, { max_tokens: most }) => {
      const send = beginStream(response);
      for (let at = 0; at < (Number(most) || 500); at++) send(delta('word '));
      send(finish('length'));
      send('[DONE]');
      response.end();
    });
    const { secrets, call } = await startWithKeys(
      { small: { limits: { dailyTokens: 100 } }, other: { limits: { dailyTokens: 100 } } },
      { upstreams: upstreamsFrom({ name: 'up', url: upstream.url, models: ['far'] }) },
    );
    const capped = await call(secrets.small, '/v1/chat/completions', { ...chat, max_tokens: 1000 });
    const asked = Number(upstream.requests[0]?.body.max_tokens);
    expect(asked).toBeLessThan(100);
    expect(capped.headers['x-ratelimit-capped-tokens']).toBe(String(asked));
    const { max_tokens: _, ...open } = chat;
    const cut = await call(secrets.other, '/v1/chat/completions', open);
    expect(cut.json()).toMatchObject({ choices: [{ finish_reason: 'length' }] });
    expect(cut.json().usage.total_tokens).toBeLessThanOrEqual(100);
    expect((await call(secrets.other, '/v1/chat/completions', open)).statusCode).toBe(429);
  });
});

describe('a client that leaves', () => {
  it('ends the request at the upstream', async () => {
    const { upstream, near } = await nearTo((response) => void beginStream(response)(delta('Good')));
    const url = await near.listen();
    const leaving = new AbortController();
    const body = JSON.stringify({ ...chat, stream: true });
    const response = await fetch(`${url}/v1/chat/completions`, {
      method: 'POST',
      body,
      signal: leaving.signal,
    });
    const reader = response.body?.getReader();
    let text = '';
    while (!text.includes('Good')) text += Buffer.from((await reader?.read())?.value ?? []).toString();
    expect(upstream.left).toBe(0);
    leaving.abort();
    await expect.poll(() => upstream.left).toBe(1);
    await expect.poll(() => near.log.some(({ outcome }) => outcome === 'client_left')).toBe(true);
  });

  it('is charged with the prompt that the upstream was sent, also before the first token', async () => {
    const { upstream, near } = await nearTo(() => {});
    const url = await near.listen();
    const leaving = new AbortController();
    const asked = fetch(`${url}/v1/chat/completions`, {
      method: 'POST',
      body: JSON.stringify({ ...chat, stream: true }),
      signal: leaving.signal,
    }).catch(() => {});
    await expect.poll(() => upstream.requests.length).toBe(1);
    leaving.abort();
    await asked;
    await expect
      .poll(() => near.log.find(({ outcome }) => outcome === 'client_left')?.promptTokens)
      .toBeGreaterThan(0);
  });
});
