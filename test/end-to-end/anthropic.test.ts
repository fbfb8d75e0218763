// The server as Anthropic's own library meets it, over a socket of this machine.

import Anthropic, {
  APIError,
  APIUserAbortError,
  AuthenticationError,
  BadRequestError,
  NotFoundError,
  RateLimitError,
} from '@anthropic-ai/sdk';
import { betaTool } from '@anthropic-ai/sdk/helpers/beta/json-schema';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { messageAnswerSchema } from '../../src/server/anthropic/answers.ts';
import { eventually } from '../support/eventually.ts';
import { type TestServer, testServer } from '../support/test-server.ts';

type Params = Anthropic.MessageCreateParamsNonStreaming;
type Messages = Anthropic.MessageParam[];

const user = (content: string): Messages => [{ role: 'user', content }];
const greeting = user('Hello, who are you?');
const story = user('Tell me a story about a fox named Milo in the forest.');
const tools: Anthropic.Tool[] = [
  {
    name: 'get_weather',
    description: 'Get the weather for a city',
    input_schema: {
      type: 'object',
      properties: { city: { type: 'string' }, unit: { type: 'string', enum: ['celsius', 'fahrenheit'] } },
      required: ['city'],
    },
  },
];
/** What the types of the library do not name. */
const drawing = { temperature: 0 } as object;
const endless = { max_tokens: 3000, ignore_eos: true } as { max_tokens: number };

let server: TestServer;
let baseURL: string;
let client: Anthropic;

beforeAll(async () => {
  server = await testServer();
  baseURL = await server.listen();
  client = new Anthropic({ baseURL, apiKey: 'any', maxRetries: 0 });
});
afterAll(() => server.close());

const params = (messages: Messages, extra: object = {}): Params => ({
  model: 'demo',
  max_tokens: 200,
  messages,
  ...drawing,
  ...extra,
});

const textOf = ({ content }: Anthropic.Message) =>
  content.map((block) => (block.type === 'text' ? block.text : '')).join('');

/** Without what differs between any two answers, and what the library adds to one that was streamed. */
function comparable(message: Anthropic.Message): object {
  const { id: _, usage, ...rest } = message;
  return { ...rest, parsed_output: undefined, output: usage.output_tokens };
}

describe("Anthropic's client", () => {
  it('gets a message, whole and streamed, with the same words', async () => {
    const message = await client.messages.create(params(greeting));
    messageAnswerSchema.parse(message);
    expect(message).toMatchObject({
      type: 'message',
      role: 'assistant',
      model: 'demo',
      stop_reason: 'end_turn',
    });
    expect(message.id).toMatch(/^msg_/);
    expect(textOf(message)).toContain('demo model');
    let text = '';
    const types: string[] = [];
    for await (const event of await client.messages.create({ ...params(greeting), stream: true })) {
      types.push(event.type);
      if (event.type === 'content_block_delta' && event.delta.type === 'text_delta') text += event.delta.text;
    }
    expect(text).toBe(textOf(message));
    expect(types.slice(0, 2)).toEqual(['message_start', 'content_block_start']);
    expect(types.slice(-3)).toEqual(['content_block_stop', 'message_delta', 'message_stop']);
  });

  it('gathers a stream into the message it would have got whole', async () => {
    const message = await client.messages.create(params(greeting));
    const stream = client.messages.stream(params(greeting));
    let text = '';
    const blocks: string[] = [];
    stream.on('text', (piece) => {
      text += piece;
    });
    stream.on('contentBlock', ({ type }) => blocks.push(type));
    const gathered = await stream.finalMessage();
    expect(comparable(gathered)).toEqual(comparable(message));
    expect(text).toBe(textOf(message));
    expect(await stream.finalText()).toBe(text);
    expect(blocks).toEqual(['text']);
  });

  it('takes a system prompt, as a text or as blocks that are marked for a cache', async () => {
    const system = 'Be brief.';
    const blocks = [{ type: 'text' as const, text: system, cache_control: { type: 'ephemeral' as const } }];
    const plain = await client.messages.create(params(greeting, { system }));
    const marked = await client.messages.create(params(greeting, { system: blocks }));
    expect(comparable(marked)).toEqual(comparable(plain));
    const { usage } = await client.messages.create(params(greeting));
    const total = (used: Anthropic.Usage) => used.input_tokens + (used.cache_read_input_tokens ?? 0);
    expect(total(plain.usage)).toBeGreaterThan(total(usage));
  });

  it('calls a tool, hands its result back, and gets an answer, whole and streamed', async () => {
    const question = user('What is the weather in Oslo?');
    const ask = {
      whole: (messages: Messages) => client.messages.create(params(messages, { tools, system: 'Be brief.' })),
      streamed: (messages: Messages) =>
        client.messages.stream(params(messages, { tools, system: 'Be brief.' })).finalMessage(),
    };
    for (const [how, send] of Object.entries(ask)) {
      const called = await send(question);
      expect(called.stop_reason, how).toBe('tool_use');
      const [call] = called.content;
      if (call?.type !== 'tool_use') expect.fail('it did not call');
      expect(call).toMatchObject({ name: 'get_weather', input: { city: 'Oslo' } });
      expect(call.id).toMatch(/^toolu_\w{9}$/);
      const answer = await send([
        ...question,
        { role: 'assistant', content: called.content },
        {
          role: 'user',
          content: [
            {
              type: 'tool_result',
              tool_use_id: call.id,
              content: [{ type: 'text', text: '{"condition": "sunny", "temperature": 21}' }],
            },
          ],
        },
      ]);
      expect(answer.stop_reason).toBe('end_turn');
      expect(textOf(answer)).toContain('21');
    }
  });

  it('runs tools by itself', async () => {
    const cities: unknown[] = [];
    const runner = client.beta.messages.toolRunner({
      ...params(user('What is the weather in Oslo?')),
      tools: [
        betaTool({
          name: 'get_weather',
          inputSchema: {
            type: 'object',
            properties: { city: { type: 'string' } },
            required: ['city'],
          },
          description: 'Get the weather for a city',
          run: ({ city }) => {
            cities.push(city);
            return '{"condition": "sunny", "temperature": 21}';
          },
        }),
      ],
    });
    const { content } = await runner;
    expect(cities).toEqual(['Oslo']);
    expect(content).toMatchObject([{ type: 'text', text: expect.stringContaining('21') }]);
  });

  it('has a tool called, or none, as it chooses', async () => {
    const forced = await client.messages.create(params(greeting, { tools, tool_choice: { type: 'any' } }));
    expect(forced.stop_reason).toBe('tool_use');
    const named = { type: 'tool', name: 'get_weather', disable_parallel_tool_use: true };
    const one = await client.messages.create(params(greeting, { tools, tool_choice: named }));
    expect(one.content.map(({ type }) => type)).toEqual(['tool_use']);
    const question = user('What is the weather in Oslo?');
    const none = await client.messages.create(params(question, { tools, tool_choice: { type: 'none' } }));
    expect(none.content.map(({ type }) => type)).not.toContain('tool_use');
  });

  it('gets JSON that its schema describes', async () => {
    const schema = {
      type: 'object',
      properties: { name: { type: 'string' }, age: { type: 'integer' } },
      required: ['name', 'age'],
      additionalProperties: false,
    };
    const question = user('Extract name and age as JSON: Meet Nora. Nora is 34 years old.');
    const output_config = { format: { type: 'json_schema', schema } };
    const message = await client.messages.create(params(question, { output_config }));
    expect(JSON.parse(textOf(message))).toEqual({ name: 'Nora', age: 34 });
    const streamed = await client.messages.stream(params(question, { output_config })).finalMessage();
    expect(textOf(streamed)).toBe(textOf(message));
  });

  it('learns which stop sequence ended the answer', async () => {
    const full = textOf(await client.messages.create(params(story, { max_tokens: 60 })));
    const stop = full.slice(40, 48);
    const extra = { max_tokens: 60, stop_sequences: ['nowhere', stop] };
    const message = await client.messages.create(params(story, extra));
    expect(message).toMatchObject({ stop_reason: 'stop_sequence', stop_sequence: stop });
    expect(textOf(message)).toBe(full.slice(0, full.indexOf(stop)));
    const streamed = await client.messages.stream(params(story, extra)).finalMessage();
    expect(comparable(streamed)).toEqual(comparable(message));
  });

  it('learns that an answer was cut off', async () => {
    const message = await client.messages.create(params(story, { max_tokens: 3 }));
    expect(message).toMatchObject({ stop_reason: 'max_tokens', stop_sequence: null });
    expect(message.usage.output_tokens).toBe(3);
  });

  it('goes on with an answer that it has begun', async () => {
    const full = textOf(await client.messages.create(params(greeting)));
    const begun = full.slice(0, full.indexOf(' ', 8));
    const rest = await client.messages.create(params([...greeting, { role: 'assistant', content: begun }]));
    expect(begun + textOf(rest)).toBe(full);
  });

  it('counts the tokens of exactly the prompt that is answered', async () => {
    for (const extra of [{}, { tools }, { tools, tool_choice: { type: 'none' } }, { system: 'Be brief.' }]) {
      const { max_tokens: _, ...body } = params(greeting, extra);
      const { input_tokens: counted } = await client.messages.countTokens(body);
      const { usage } = await client.messages.create(params(greeting, { ...extra, max_tokens: 1 }));
      expect(counted).toBe(usage.input_tokens + (usage.cache_read_input_tokens ?? 0));
    }
  });

  it('finds the models', async () => {
    const names: string[] = [];
    for await (const { id } of client.models.list({ limit: 1 })) names.push(id);
    expect(names).toEqual(['demo', 'plain']);
    const model = await client.models.retrieve('demo');
    expect(model).toMatchObject({ type: 'model', id: 'demo', created_at: '2023-11-14T22:13:20.000Z' });
    const lost = client.models.retrieve('nope');
    await expect(lost).rejects.toBeInstanceOf(NotFoundError);
    await expect(lost).rejects.toMatchObject({ type: 'not_found_error' });
  });

  it('leaves, and the engine computes no further', async () => {
    const before = (await server.pool.engine.stats()).requests.cancelled;
    const stream = await client.messages.create({ ...params(story, endless), stream: true });
    let events = 0;
    for await (const _ of stream) if (++events === 8) break;
    const controller = new AbortController();
    const asked = client.messages.create(params(story, endless), { signal: controller.signal });
    setTimeout(() => controller.abort(), 50);
    await expect(asked).rejects.toBeInstanceOf(APIUserAbortError);
    await eventually(async () => {
      expect((await server.pool.engine.stats()).requests.cancelled).toBe(before + 2);
    });
    expect((await server.pool.engine.stats()).running).toEqual([]);
    expect(server.pool.leases).toBe(0);
  });

  it('gets errors as its own classes', async () => {
    const lost = client.messages.create(params(greeting, { model: 'nope' }));
    await expect(lost).rejects.toBeInstanceOf(NotFoundError);
    await expect(lost).rejects.toMatchObject({ type: 'not_found_error' });
    const wrong = client.messages.create(params(greeting, { temperature: -1 }));
    await expect(wrong).rejects.toBeInstanceOf(BadRequestError);
    await expect(wrong).rejects.toMatchObject({
      type: 'invalid_request_error',
      message: expect.stringContaining('temperature'),
      requestID: expect.stringMatching(/^req_/),
    });
    const hosted = { type: 'web_search_20250305' as const, name: 'web_search' as const };
    const searching = client.messages.create(params(greeting, { tools: [hosted] }));
    await expect(searching).rejects.toThrow(/web_search_20250305/);
    const long = client.messages.create(params(user('word '.repeat(5000))));
    await expect(long).rejects.toBeInstanceOf(BadRequestError);
    await expect(long).rejects.toThrow(/prompt is too long/);
  });

  it('hears of a failure inside a stream', async () => {
    const headers = { 'x-chairlift-timeout-ms': '400' };
    const late = client.messages.stream(params(story, endless), { headers }).finalMessage();
    await expect(late).rejects.toBeInstanceOf(APIError);
    await expect(late).rejects.toMatchObject({ type: 'timeout_error' });
  });

  it('is told to wait, or that its key is wrong, in either header', async () => {
    const record = { id: 'key_1', name: 'good', prefix: 'good', tier: 'normal' as const, admin: false };
    const guarded = await testServer({
      keys: {
        status: async () => 'live' as const,
        findById: async () => undefined,
        findByKey: async (key) =>
          key === 'good' ? { ...record, createdMs: 0, limits: { requestsPerMinute: 2 } } : undefined,
      },
    });
    try {
      const options = { baseURL: await guarded.listen(), maxRetries: 0 };
      const ask = (given: { apiKey?: string | null; authToken?: string | null }) =>
        new Anthropic({ ...options, apiKey: null, ...given }).messages.create(
          params(greeting, { max_tokens: 1 }),
        );
      const bad = ask({ apiKey: 'bad' });
      await expect(bad).rejects.toBeInstanceOf(AuthenticationError);
      await expect(bad).rejects.toMatchObject({
        type: 'authentication_error',
        requestID: expect.stringMatching(/^req_/),
      });
      await ask({ apiKey: 'good' });
      await ask({ authToken: 'good' });
      const refused = ask({ apiKey: 'good' });
      await expect(refused).rejects.toBeInstanceOf(RateLimitError);
      await expect(refused).rejects.toMatchObject({ type: 'rate_limit_error' });
    } finally {
      await guarded.close();
    }
  });
});

describe("OpenAI's clients", () => {
  it('still get models in their own shape', async () => {
    const response = await fetch(`${baseURL}/v1/models`);
    expect(await response.json()).toMatchObject({ object: 'list', data: [{ object: 'model' }, {}] });
  });
});
