// Models of an upstream, asked for by name: of a second server of ours, and of a stand-in that sends what ours never would.

import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { messages } from '../../../test/support/keyed-server.ts';
import { type TestServer, testServer } from '../../../test/support/test-server.ts';
import { complete, nearTo, upstreamsFrom } from '../../../test/support/upstream-servers.ts';

const lark = {
  type: 'custom',
  name: 'x',
  format: { type: 'grammar', syntax: 'lark', definition: 'start: "a"' },
};
const chat = { model: 'far', messages, max_tokens: 20, temperature: 0 };

describe('a model of another server of ours', () => {
  let far: TestServer;
  let near: TestServer;
  beforeAll(async () => {
    far = await testServer();
    const url = `${await far.listen()}/v1`;
    near = await testServer({
      upstreams: upstreamsFrom({
        name: 'up',
        url,
        models: [{ name: 'demo', as: 'far' }],
        parameters: ['top_k'],
      }),
    });
  });
  afterAll(async () => {
    await near.close();
    await far.close();
  });
  const textIn = (body: string) => {
    const found = [...body.matchAll(/"(?:content|text|response|delta)":"((?:[^"\\]|\\.)*)"/g)];
    return found.map(([, text]) => text).join('');
  };

  it.each([
    ['/v1/chat/completions', { messages, max_tokens: 12 }],
    ['/v1/completions', { prompt: 'Once upon a time', max_tokens: 12 }],
    ['/v1/responses', { input: 'Hello', max_output_tokens: 12 }],
    ['/v1/messages', { messages, max_tokens: 12 }],
    ['/api/chat', { messages, options: { num_predict: 12, temperature: 0 } }],
    ['/api/generate', { prompt: 'Hello', options: { num_predict: 12, temperature: 0 } }],
    ['/api/generate', { prompt: 'Once upon', raw: true, options: { num_predict: 12, temperature: 0 } }],
  ])('answers by %s what the same model answers here, streamed and whole', async (url, body) => {
    const zero = url.startsWith('/api') ? {} : { temperature: 0 };
    for (const stream of [false, true]) {
      const ask = (model: string) =>
        near.app.inject({ method: 'POST', url, payload: { ...body, ...zero, model, stream } });
      const [here, there] = [await ask('demo'), await ask('far')];
      expect(there.statusCode, there.body).toBe(200);
      expect(textIn(there.body)).toBe(textIn(here.body));
      expect(textIn(there.body)).not.toBe('');
      expect(there.headers['x-chairlift-upstream']).toBe('up');
      expect(here.headers['x-chairlift-upstream']).toBeUndefined();
    }
  });

  it('is told of with the request, in the log, in the metrics and among the models', async () => {
    const answer = await near.app.inject({ method: 'POST', url: '/v1/chat/completions', payload: chat });
    const id = answer.headers['x-request-id'] as string;
    const upstream = { name: 'up', model: 'demo' };
    const trace = (await near.app.inject({ url: `/requests/${id}` })).json();
    expect(trace).toMatchObject({ model: 'far', upstream, outcome: 'ok', generatedTokens: 20 });
    expect(trace.events.map(({ what }: { what: string }) => what)).toEqual([
      'arrived',
      'submitted',
      'first-token',
      'ended',
    ]);
    expect(near.log.find(({ requestId }) => requestId === id)).toMatchObject({ upstream });
    const metrics = (await near.app.inject({ url: '/metrics' })).body;
    expect(metrics).toMatch(
      /chairlift_upstream_requests_total\{upstream="up",model="far",outcome="ok"\} [1-9]/,
    );
    const { data } = (await near.app.inject({ url: '/v1/models' })).json();
    expect(data.at(-1)).toMatchObject({ id: 'far', owned_by: 'up', upstream: 'up' });
    expect((await near.app.inject({ url: '/v1/models/far' })).json()).toMatchObject({
      id: 'far',
      upstream: 'up',
    });
    const tags = (await near.app.inject({ url: '/api/tags' })).json().models;
    expect(tags.map(({ name }: { name: string }) => name)).toContain('far');
    const shown = await near.app.inject({ method: 'POST', url: '/api/show', payload: { model: 'far' } });
    expect(shown.json()).toMatchObject({ remote_model: 'demo', capabilities: ['completion', 'tools'] });
  });

  it('is never the model of a request that names none', async () => {
    const { model: _, ...body } = chat;
    const answer = await near.app.inject({ method: 'POST', url: '/v1/chat/completions', payload: body });
    expect(answer.json().model).toBe('demo');
  });

  it.each([
    ['/tokenize', { prompt: 'x' }],
    ['/completion', { prompt: 'x', n_predict: 1 }],
    ['/v1/messages/count_tokens', { messages }],
    ['/v1/rerank', { query: 'x', documents: ['y'] }],
  ])('is refused by %s, which needs the model itself', async (url, body) => {
    const answer = await near.app.inject({ method: 'POST', url, payload: { ...body, model: 'far' } });
    expect(answer.statusCode).toBe(400);
    expect(answer.body).toMatch(/upstream/);
  });

  it.each([
    [
      '/v1/chat/completions',
      { messages, min_p: 0.1 },
      /^min_p: cannot be carried by OpenAI’s protocol, which the upstream 'up' of 'far' speaks$/,
    ],
    ['/v1/chat/completions', { messages, logprobs: true }, /^logprobs: /],
    ['/v1/chat/completions', { messages, guided_regex: 'a+' }, /^guided_regex: /],
    [
      '/v1/chat/completions',
      { messages: [...messages, { role: 'assistant', content: 'I' }] },
      /^continue_final_message: /,
    ],
    ['/v1/completions', { prompt: 'x', best_of: 2 }, /^best_of: /],
    ['/v1/responses', { input: 'x', truncation: 'auto' }, /^truncation: /],
    ['/v1/responses', { input: 'x', tools: [lark] }, /^tools: needs a model that is here/],
    [
      '/v1/messages',
      { messages, max_tokens: 9, thinking: { type: 'enabled', budget_tokens: 5 } },
      /^thinking.budget_tokens: /,
    ],
    [
      '/v1/messages',
      { messages, max_tokens: 9, stop_sequences: ['1', '2', '3', '4', '5'] },
      /^stop_sequences: has 5 texts/,
    ],
    ['/api/chat', { messages, options: { repeat_penalty: 1.3 } }, /^options.repeat_penalty: /],
    ['/api/generate', { prompt: 'x', context: [1] }, /^context: /],
    ['/api/generate', { prompt: 'x', raw: true }, /^options.num_predict: is needed/],
  ])('refuses by %s what its protocol cannot carry, by its name: %j', async (url, body, message) => {
    const answer = await near.app.inject({ method: 'POST', url, payload: { ...body, model: 'far' } });
    expect(answer.statusCode, answer.body).toBe(400);
    const { error } = answer.json();
    expect(error.message ?? error).toMatch(message);
  });

  it('takes what its upstream is said to take besides, and values that change nothing', async () => {
    const neutral = { min_p: 0, repetition_penalty: 1, logprobs: false, ignore_eos: false, n: 1 };
    const payload = { ...chat, ...neutral, top_k: 1, temperature: 1 };
    const ask = (model: string) =>
      near.app.inject({ method: 'POST', url: '/v1/chat/completions', payload: { ...payload, model } });
    const [here, there] = [await ask('demo'), await ask('far')];
    expect(there.json().choices).toEqual(here.json().choices);
  });

  it('has timings with every chunk where they are asked for, which this server measures', async () => {
    const payload = { ...chat, stream: true, timings_per_token: true };
    const answer = await near.app.inject({ method: 'POST', url: '/v1/chat/completions', payload });
    expect(answer.statusCode, answer.body).toBe(200);
    expect(answer.body.match(/"predicted_per_second":/g)?.length).toBeGreaterThan(3);
  });

  it('gives several answers to several prompts, each in its place', async () => {
    const payload = { prompt: ['Once upon a time', 'Hello'], n: 2, max_tokens: 8, temperature: 0 };
    const ask = (model: string) =>
      near.app.inject({ method: 'POST', url: '/v1/completions', payload: { ...payload, model } });
    const [here, there] = [(await ask('demo')).json(), (await ask('far')).json()];
    expect(there.choices).toEqual(here.choices);
    expect(there.usage).toMatchObject({ completion_tokens: 32, prompt_tokens: here.usage.prompt_tokens });
  });
});

describe('what an upstream is sent', () => {
  it('is a conversation in OpenAI’s words, with its own key and none of the client’s', async () => {
    const { upstream, near, post } = await nearTo(complete);
    const body = {
      model: 'far',
      max_tokens: 50,
      system: 'Be brief.',
      messages: [
        { role: 'user', content: 'Weather?' },
        {
          role: 'assistant',
          content: [
            { type: 'thinking', thinking: 'hm', signature: '' },
            { type: 'tool_use', id: 'toolu_1', name: 'weather', input: { city: 'Bern' } },
          ],
        },
        { role: 'user', content: [{ type: 'tool_result', tool_use_id: 'toolu_1', content: 'sunny' }] },
      ],
      tools: [{ name: 'weather', input_schema: { type: 'object', properties: {} } }],
      tool_choice: { type: 'any' },
      stop_sequences: ['END'],
    };
    const headers = { authorization: 'Bearer sk-client', cookie: 'a=b', 'x-api-key': 'sk-client' };
    const answer = await post('/v1/messages', body, headers);
    expect(answer.statusCode, answer.body).toBe(200);
    expect(answer.headers['x-chairlift-warning']).toMatch(/reasoning of earlier turns is not sent/);
    const [sent] = upstream.requests;
    expect(sent?.url).toBe('/v1/chat/completions');
    expect(sent?.body).toEqual({
      model: 'remote',
      messages: [
        { role: 'system', content: [{ type: 'text', text: 'Be brief.' }] },
        { role: 'user', content: [{ type: 'text', text: 'Weather?' }] },
        {
          role: 'assistant',
          content: null,
          tool_calls: [
            { id: '1', type: 'function', function: { name: 'weather', arguments: '{"city":"Bern"}' } },
          ],
        },
        { role: 'tool', content: [{ type: 'text', text: 'sunny' }], tool_call_id: '1' },
      ],
      tools: [
        { type: 'function', function: { name: 'weather', parameters: { type: 'object', properties: {} } } },
      ],
      tool_choice: 'required',
      stop: ['END'],
      max_tokens: 50,
      stream: true,
      stream_options: { include_usage: true },
    });
    expect(sent?.headers).toMatchObject({ authorization: 'Bearer sk-secret', 'accept-encoding': 'identity' });
    expect(JSON.stringify(sent?.headers)).not.toMatch(/sk-client|a=b/);
    expect(JSON.stringify(near.log)).not.toMatch(/sk-secret/);
  });

  it('names the servers it came through, and is not sent where it has been', async () => {
    const { upstream, post } = await nearTo(complete);
    await post('/v1/chat/completions', chat, { 'x-chairlift-via': 'other' });
    const via = String(upstream.requests[0]?.headers['x-chairlift-via']);
    expect(via).toMatch(/^other, [0-9a-f]{16}$/);
    for (const came of [via, 'a, b, c, d']) {
      const again = await post('/v1/chat/completions', chat, { 'x-chairlift-via': came });
      expect(again.statusCode).toBe(508);
      expect(again.json().error.code).toBe('upstream_loop');
    }
    expect(upstream.requests).toHaveLength(1);
  });
});
