// Upstreams that speak Anthropic's messages: a second server of ours, and a stand-in for what ours never sends.

import type { ServerResponse } from 'node:http';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { messages } from '../../../test/support/keyed-server.ts';
import { type TestServer, testServer } from '../../../test/support/test-server.ts';
import {
  beginStream,
  openStandIn,
  type StandIn,
  upstreamsFrom,
} from '../../../test/support/upstream-servers.ts';

describe('an upstream that speaks Anthropic’s messages', () => {
  let behave: (response: ServerResponse) => void = () => {};
  let far: TestServer;
  let near: TestServer;
  let upstream: StandIn;
  beforeAll(async () => {
    far = await testServer();
    upstream = await openStandIn((response) => behave(response));
    const protocol = 'anthropic';
    near = await testServer({
      upstreams: upstreamsFrom(
        { name: 'up', protocol, url: `${await far.listen()}/v1`, models: [{ name: 'demo', as: 'far' }] },
        {
          name: 'odd',
          protocol,
          url: upstream.url,
          key: 'sk-ant-secret',
          models: [{ name: 'remote', as: 'odd', maxTokens: 77 }],
        },
      ),
    });
  });
  afterAll(async () => {
    await near.close();
    await far.close();
    upstream.close();
  });
  const post = (url: string, payload: object) => near.app.inject({ method: 'POST', url, payload });
  const textIn = (body: string) =>
    [...body.matchAll(/"(?:content|text|response|delta)":"((?:[^"\\]|\\.)*)"/g)]
      .map(([, text]) => text)
      .join('');

  it.each([
    ['/v1/chat/completions', { messages, max_tokens: 12, temperature: 0 }],
    ['/v1/responses', { input: 'Hello', max_output_tokens: 12, temperature: 0 }],
    ['/v1/messages', { messages, max_tokens: 12, temperature: 0 }],
    ['/api/chat', { messages, options: { num_predict: 12, temperature: 0, top_k: 5 } }],
    // The answer goes on with the assistant's message.
    [
      '/v1/messages',
      { messages: [...messages, { role: 'assistant', content: 'I am' }], max_tokens: 9, temperature: 0 },
    ],
  ])('answers by %s what the same model answers here', async (url, body) => {
    for (const stream of [false, true]) {
      const [here, there] = [
        await post(url, { ...body, model: 'demo', stream }),
        await post(url, { ...body, model: 'far', stream }),
      ];
      expect(there.statusCode, there.body).toBe(200);
      expect(textIn(there.body)).toBe(textIn(here.body));
      expect(textIn(there.body)).not.toBe('');
    }
  });

  it('counts what the upstream counts, the cached part of the prompt too', async () => {
    const long = [{ role: 'user', content: 'Tell me a story about a fox. '.repeat(12) }];
    const ask = async (model: string) =>
      (await post('/v1/chat/completions', { model, messages: long, max_tokens: 4, temperature: 0 })).json()
        .usage;
    await ask('far');
    const again = await ask('far');
    expect(again.prompt_tokens).toBe((await ask('demo')).prompt_tokens);
    expect(again.prompt_tokens_details.cached_tokens).toBeGreaterThan(31);
    expect(again.completion_tokens).toBe(4);
  });

  const events =
    (...all: object[]) =>
    (response: ServerResponse) => {
      const send = beginStream(response);
      for (const event of all) send(event);
      response.end();
    };
  const begin = {
    type: 'message_start',
    message: { usage: { input_tokens: 9, cache_read_input_tokens: 3, output_tokens: 1 } },
  };
  const text = (index: number, words: string) => ({
    type: 'content_block_delta',
    index,
    delta: { type: 'text_delta', text: words },
  });
  const end = (stop_reason: string, stop_sequence: string | null = null) => [
    { type: 'message_delta', delta: { stop_reason, stop_sequence }, usage: { output_tokens: 7 } },
    { type: 'message_stop' },
  ];

  it('is sent a conversation with tools in Anthropic’s words', async () => {
    behave = events(
      begin,
      { type: 'content_block_start', index: 0, content_block: { type: 'text', text: '' } },
      text(0, 'Sunny'),
      ...end('end_turn'),
    );
    const call = { id: 'c1', type: 'function', function: { name: 'weather', arguments: '{"city":"Bern"}' } };
    const schema = { type: 'object', properties: {} };
    const answer = await post('/v1/chat/completions', {
      model: 'odd',
      messages: [
        { role: 'system', content: 'Be brief.' },
        { role: 'user', content: 'Weather?' },
        { role: 'assistant', content: null, tool_calls: [call] },
        { role: 'tool', tool_call_id: 'c1', content: 'sunny' },
        { role: 'user', content: [{ type: 'text', text: 'So?' }] },
      ],
      tools: [{ type: 'function', function: { name: 'weather', description: 'looks', parameters: schema } }],
      tool_choice: { type: 'function', function: { name: 'weather' } },
      parallel_tool_calls: false,
      stop: 'END',
      reasoning_effort: 'minimal',
      response_format: { type: 'json_schema', json_schema: { name: 'x', schema } },
    });
    expect(answer.statusCode, answer.body).toBe(200);
    expect(answer.json().usage).toMatchObject({ prompt_tokens: 12, completion_tokens: 7 });
    const sent = upstream.requests.at(-1);
    expect(sent?.url).toBe('/v1/messages');
    expect(sent?.headers).toMatchObject({ 'x-api-key': 'sk-ant-secret', 'anthropic-version': '2023-06-01' });
    expect(sent?.headers.authorization).toBeUndefined();
    expect(sent?.body).toEqual({
      model: 'remote',
      max_tokens: 77,
      system: 'Be brief.',
      messages: [
        { role: 'user', content: [{ type: 'text', text: 'Weather?' }] },
        {
          role: 'assistant',
          content: [{ type: 'tool_use', id: 'c1', name: 'weather', input: { city: 'Bern' } }],
        },
        {
          role: 'user',
          content: [
            { type: 'tool_result', tool_use_id: 'c1', content: [{ type: 'text', text: 'sunny' }] },
            { type: 'text', text: 'So?' },
          ],
        },
      ],
      tools: [{ name: 'weather', description: 'looks', input_schema: schema }],
      tool_choice: { type: 'tool', name: 'weather', disable_parallel_tool_use: true },
      stop_sequences: ['END'],
      thinking: { type: 'adaptive' },
      output_config: { effort: 'low', format: { type: 'json_schema', schema } },
      stream: true,
    });
  });

  it('is told how long it may think', async () => {
    behave = events(begin, text(0, 'Good'), ...end('end_turn'));
    const thinking = { type: 'enabled', budget_tokens: 1024 };
    const answer = await post('/v1/messages', { model: 'odd', messages, max_tokens: 2000, thinking });
    expect(answer.statusCode, answer.body).toBe(200);
    expect(upstream.requests.at(-1)?.body).toMatchObject({ thinking, max_tokens: 2000 });
    await post('/api/chat', { model: 'odd', messages, think: false, stream: false });
    expect(upstream.requests.at(-1)?.body).toMatchObject({ thinking: { type: 'disabled' } });
  });

  it('is read with thinking, calls and the stop string that ended the answer', async () => {
    behave = events(
      begin,
      { type: 'ping' },
      { type: 'content_block_start', index: 0, content_block: { type: 'thinking', thinking: '' } },
      { type: 'content_block_delta', index: 0, delta: { type: 'thinking_delta', thinking: 'Hm.' } },
      { type: 'content_block_delta', index: 0, delta: { type: 'signature_delta', signature: 'x' } },
      { type: 'content_block_stop', index: 0 },
      {
        type: 'content_block_start',
        index: 1,
        content_block: { type: 'tool_use', id: 'toolu_1', name: 'look', input: {} },
      },
      { type: 'content_block_delta', index: 1, delta: { type: 'input_json_delta', partial_json: '{"a":' } },
      { type: 'content_block_delta', index: 1, delta: { type: 'input_json_delta', partial_json: '1}' } },
      ...end('tool_use'),
    );
    const { choices } = (await post('/v1/chat/completions', { model: 'odd', messages })).json();
    expect(choices[0]).toMatchObject({
      finish_reason: 'tool_calls',
      message: {
        reasoning_content: 'Hm.',
        tool_calls: [{ id: 'toolu_1', function: { name: 'look', arguments: '{"a":1}' } }],
      },
    });
    behave = events(begin, text(0, 'Good'), ...end('stop_sequence', 'END'));
    const message = (await post('/v1/messages', { model: 'odd', messages, max_tokens: 9 })).json();
    expect(message).toMatchObject({ stop_reason: 'stop_sequence', stop_sequence: 'END' });
    behave = events(begin, text(0, 'Good'), ...end('max_tokens'));
    expect((await post('/api/chat', { model: 'odd', messages, stream: false })).json().done_reason).toBe(
      'length',
    );
  });

  it('is charged with what was delivered where it breaks, and not with the count of its beginning', async () => {
    behave = (response) => {
      const send = beginStream(response);
      for (const event of [begin, text(0, 'One'), text(0, ' two'), text(0, ' three')]) send(event);
      setTimeout(() => response.destroy(), 20);
    };
    const answer = await post('/v1/messages', { model: 'odd', messages, max_tokens: 9, stream: true });
    expect(answer.body).toMatch(/three[\s\S]*event: error/);
    const trace = (await near.app.inject({ url: `/requests/${answer.headers['x-request-id']}` })).json();
    expect(trace).toMatchObject({ outcome: 'upstream_cut_off', promptTokens: 12, generatedTokens: 3 });
  });

  it.each([
    [
      'an error',
      events(begin, { type: 'error', error: { type: 'overloaded_error', message: 'Overloaded' } }),
      'upstream_failed',
    ],
    ['a refusal', events(begin, text(0, 'No'), ...end('refusal')), 'upstream_content_filter'],
    ['no end', events(begin, text(0, 'No')), 'upstream_cut_off'],
    [
      'a block of nothing',
      events(begin, { type: 'content_block_start', index: 0 }),
      'upstream_invalid_answer',
    ],
    [
      'a delta of nothing',
      events(begin, { type: 'content_block_delta', index: 0, delta: 7 }),
      'upstream_invalid_answer',
    ],
    [
      'input of no call',
      events({
        type: 'content_block_delta',
        index: 0,
        delta: { type: 'input_json_delta', partial_json: '1' },
      }),
      'upstream_invalid_answer',
    ],
  ])('that sends %s gives an honest error', async (_, answer, code) => {
    behave = answer;
    const refused = await post('/v1/chat/completions', { model: 'odd', messages });
    expect(refused.statusCode).toBe(502);
    expect(refused.json().error.code).toBe(code);
  });

  it.each([
    [
      '/v1/chat/completions',
      { messages, seed: 5, max_tokens: 9 },
      /^seed: cannot be carried by Anthropic’s protocol/,
    ],
    ['/v1/chat/completions', { messages, n: 2, max_tokens: 9 }, /^n: /],
    ['/v1/chat/completions', { messages }, /^max_tokens: is needed by Anthropic’s protocol/],
    ['/v1/responses', { input: 'x' }, /^max_output_tokens: is needed/],
    ['/v1/completions', { prompt: 'x', max_tokens: 2 }, /^prompt: /],
    [
      '/v1/chat/completions',
      { messages, max_tokens: 9, response_format: { type: 'json_object' } },
      /^response_format: /,
    ],
    [
      '/v1/chat/completions',
      { messages: [...messages, { role: 'system', content: 'x' }], max_tokens: 9 },
      /^messages\[1\]: /,
    ],
  ])('refuses by %s what it cannot carry: %j', async (url, body, message) => {
    const refused = await post(url, { ...body, model: 'far' });
    expect(refused.statusCode).toBe(400);
    expect(refused.json().error.message).toMatch(message);
  });
});
