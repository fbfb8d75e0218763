// The server as Ollama's own client meets it, over a socket of this machine.

import { type ChatRequest, type ChatResponse, type Message, Ollama, type Tool } from 'ollama';
import type { ChatCompletion, CreateEmbeddingResponse } from 'openai/resources';
import { pino } from 'pino';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createServerPair } from '../../src/server/create-server.ts';
import { Limiter } from '../../src/server/limits/limiter.ts';
import { defaultSettings } from '../../src/server/settings.ts';
import { eventually } from '../support/eventually.ts';
import { startWithKeys } from '../support/keyed-server.ts';
import { type TestServer, testServer } from '../support/test-server.ts';

const user = (content: string): Message[] => [{ role: 'user', content }];
const greeting = user('Hello, who are you?');
const story = user('Tell me a story about a fox named Milo in the forest.');
const exact = { temperature: 0 };

const weather: Tool = {
  type: 'function',
  function: {
    name: 'get_weather',
    description: 'Get the current weather in a city.',
    parameters: {
      type: 'object',
      properties: { city: { type: 'string', description: 'The city' } },
      required: ['city'],
    },
  },
};

let server: TestServer;
let url: string;
let client: Ollama;

beforeAll(async () => {
  server = await testServer();
  url = await server.listen();
  client = new Ollama({ host: url });
});
afterAll(() => server.close());

async function streamed(request: Omit<ChatRequest, 'stream'>): Promise<ChatResponse[]> {
  const parts: ChatResponse[] = [];
  for await (const part of await client.chat({ ...request, stream: true })) parts.push(part);
  return parts;
}

/** What the server says elsewhere of the same. */
async function post<Answer>(path: string, body: object): Promise<Answer> {
  const headers = { 'content-type': 'application/json' };
  const response = await fetch(url + path, { method: 'POST', headers, body: JSON.stringify(body) });
  return response.json() as Promise<Answer>;
}

const textOf = (parts: readonly ChatResponse[]) => parts.map(({ message }) => message.content).join('');

describe("Ollama's client", () => {
  it('chats, whole and streamed, with the same words', async () => {
    const whole = await client.chat({ model: 'demo', messages: greeting, options: exact });
    expect(whole.message).toMatchObject({
      role: 'assistant',
      content: expect.stringContaining('demo model'),
    });
    expect(whole).toMatchObject({ model: 'demo', done: true, done_reason: 'stop' });
    const parts = await streamed({ model: 'demo', messages: greeting, options: exact });
    expect(textOf(parts)).toBe(whole.message.content);
    expect(parts.slice(0, -1).every(({ done }) => !done)).toBe(true);
    expect(parts.at(-1)).toMatchObject({
      done: true,
      done_reason: 'stop',
      message: { role: 'assistant', content: '' },
      prompt_eval_count: whole.prompt_eval_count,
      eval_count: whole.eval_count,
    });
  });

  it('is told when, and how long everything took', async () => {
    const beforeMs = Date.now();
    const startMs = performance.now();
    const answer = await client.chat({
      model: 'demo',
      messages: story,
      options: { ...exact, num_predict: 40 },
    });
    const elapsedNs = (performance.now() - startMs) * 1e6;
    expect(answer.created_at).toMatch(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{9}Z$/);
    expect(Math.abs(Date.parse(String(answer.created_at)) - beforeMs)).toBeLessThan(60_000);
    expect(answer.done_reason).toBe('length');
    expect(answer.eval_count).toBe(40);
    expect(answer.total_duration).toBeLessThan(elapsedNs);
    for (const part of [answer.prompt_eval_duration, answer.eval_duration]) expect(part).toBeGreaterThan(0);
    const sum = answer.load_duration + answer.prompt_eval_duration + answer.eval_duration;
    expect(sum).toBeLessThanOrEqual(answer.total_duration);
  });

  it.each([false, true])('calls tools and goes on with their results, streamed: %s', async (stream) => {
    const messages = user('What is the weather in Oslo?');
    const ask = async (given: Message[]): Promise<Message> => {
      const request = { model: 'demo', messages: given, tools: [weather], options: exact };
      if (!stream) return (await client.chat(request)).message;
      const parts = await streamed(request);
      const calls = parts.flatMap(({ message }) => message.tool_calls ?? []);
      return {
        role: 'assistant',
        content: textOf(parts),
        ...(calls.length > 0 ? { tool_calls: calls } : {}),
      };
    };
    const called = await ask(messages);
    expect(called.tool_calls).toEqual([
      {
        id: expect.any(String),
        function: { index: 0, name: 'get_weather', arguments: { city: 'Oslo' } },
      },
    ]);
    const result = { role: 'tool', tool_name: 'get_weather', content: '{"temperature": 7}' };
    const answer = await ask([...messages, called, result]);
    expect(answer.tool_calls).toBeUndefined();
    expect(answer.content).not.toBe('');
  });

  it('gets JSON, any or as a schema says', async () => {
    const format = {
      type: 'object',
      properties: { name: { type: 'string' }, age: { type: 'integer' } },
      required: ['name', 'age'],
    };
    const messages = user('Extract as JSON: Anna is 31 years old.');
    const held = await client.chat({ model: 'demo', messages, format, options: exact });
    const value = JSON.parse(held.message.content);
    expect(Object.keys(value)).toEqual(['name', 'age']);
    expect(Number.isInteger(value.age)).toBe(true);
    const options = { ...exact, num_predict: 200 };
    const free = await client.generate({
      model: 'demo',
      prompt: messages[0]?.content ?? '',
      format: 'json',
      options,
    });
    expect(typeof JSON.parse(free.response ?? '')).toBe('object');
  });

  it('generates: as a chat of one message, or from a raw prompt', async () => {
    const asked = { model: 'demo', prompt: 'Hello, who are you?', options: exact };
    const { response, done_reason } = await client.generate(asked);
    const chat = await client.chat({ model: 'demo', messages: greeting, options: exact });
    expect({ response, done_reason }).toEqual({ response: chat.message.content, done_reason: 'stop' });
    let text = '';
    for await (const part of await client.generate({ ...asked, stream: true })) text += part.response;
    expect(text).toBe(response);
    const raw = {
      model: 'plain',
      prompt: 'Once upon a time',
      raw: true,
      options: { ...exact, num_predict: 5 },
    };
    const continued = await client.generate(raw);
    expect(continued).toMatchObject({ done_reason: 'length', eval_count: 5 });
    expect(continued.response).not.toBe('');
  });

  it('goes on with what the assistant has begun', async () => {
    const content = 'Once there was a fox';
    const begun: Message[] = [...story, { role: 'assistant', content }];
    const options = { ...exact, num_predict: 12 };
    const { message } = await client.chat({ model: 'demo', messages: begun, options });
    const { choices } = await post<ChatCompletion>('/v1/chat/completions', {
      messages: begun,
      continue_final_message: true,
      temperature: 0,
      max_tokens: 12,
    });
    expect(message.content).toBe(choices[0]?.message.content);
    expect(message.content).not.toContain(content);
  });

  it('stops at its stop strings, and samples the same by a seed', async () => {
    const options = { seed: 7, num_predict: 40 };
    const ask = async (more: object) =>
      (await client.chat({ model: 'demo', messages: story, options: { ...options, ...more } })).message
        .content;
    const full = await ask({});
    expect(await ask({ num_ctx: 1024, num_thread: 3, mirostat: 0, tfs_z: 1 })).toBe(full);
    const stop = full.slice(20, 26);
    expect(await ask({ stop: [stop] })).toBe(full.slice(0, full.indexOf(stop)));
  });

  it('tells log-probabilities', async () => {
    const answer = await client.chat({
      model: 'demo',
      messages: greeting,
      options: { ...exact, num_predict: 4 },
      logprobs: true,
      top_logprobs: 2,
    });
    expect(answer.logprobs?.map(({ token }) => token).join('')).toBe(answer.message.content);
    expect(answer.logprobs?.every(({ top_logprobs: top }) => top?.length === 2)).toBe(true);
  });

  it('lists models, and shows what one is', async () => {
    const { models } = await client.list();
    expect(models.map(({ name }) => name)).toEqual(['demo', 'plain']);
    expect(models[0]).toMatchObject({
      model: 'demo',
      digest: expect.stringMatching(/^[0-9a-f]{64}$/),
      details: {
        format: 'gguf',
        quantization_level: 'Q8_0',
        parameter_size: expect.stringMatching(/^1\d\.\dM$/),
      },
    });
    expect(models[0]?.size).toBeGreaterThan(1e7);
    const shown = (await client.show({ model: 'demo:latest' })) as unknown as Record<string, unknown>;
    expect(shown.capabilities).toEqual(['completion', 'tools']);
    expect(shown.template).toContain('{%');
    expect(shown.details).toEqual(models[0]?.details);
    const info = shown.model_info as Record<string, unknown>;
    const family = info['general.architecture'];
    expect(info[`${family}.context_length`]).toBe(server.pool.model.spec.contextLength);
    expect(info['general.parameter_count']).toBeGreaterThan(1e7);
    const { models: loaded } = await client.ps();
    expect(loaded[0]).toMatchObject({
      name: 'demo',
      size_vram: 0,
      expires_at: expect.stringMatching(/^2300/),
    });
    expect((await client.version()).version).toMatch(/^\d+\.\d+\.\d+$/);
  });

  it('loads a model by asking nothing of it', async () => {
    expect(await client.generate({ model: 'demo', prompt: '' })).toMatchObject({
      response: '',
      done: true,
      done_reason: 'load',
    });
    const parts = await streamed({ model: 'default', messages: [], keep_alive: '5m' });
    expect(parts).toMatchObject([{ message: { content: '' }, done: true, done_reason: 'load' }]);
    expect(await client.chat({ model: 'demo', messages: [], keep_alive: 0 })).toMatchObject({
      done_reason: 'unload',
    });
  });

  it('gets errors with their status, and says what is wrong', async () => {
    const lost = client.chat({ model: 'nope:7b', messages: greeting });
    await expect(lost).rejects.toMatchObject({ status_code: 404, error: "model 'nope:7b' not found" });
    const bad = (request: object) => client.chat({ model: 'demo', messages: greeting, ...request });
    const refusals: [object, RegExp][] = [
      [{ options: { temperature: -1 } }, /^options\.temperature: must be/],
      [{ options: { num_predict: 0 } }, /^options\.num_predict: must be/],
      [{ options: { mirostat: 3 } }, /^options\.mirostat: must be/],
      [{ options: { repeat_last_n: -2 } }, /^options\.repeat_last_n: must be/],
      [{ format: { type: 'nonsense' } }, /^format: /],
      [{ format: 'xml' }, /^format: must be/],
      [{ think: true }, /^think: the model 'demo' does not think/],
      [{ keep_alive: 'soon' }, /^keep_alive: must be/],
      [
        { messages: [{ role: 'user', content: 'x', images: ['aGk='] }] },
        /^messages\[0\]\.images\[0\]: the model 'demo' does not read images/,
      ],
      [{ messages: [{ role: 'wizard', content: 'x' }] }, /^messages\[0\]\.role: /],
      [{ messages: user('fox '.repeat(5000)) }, /^This model's maximum context length is \d+ tokens/],
    ];
    for (const [request, error] of refusals) {
      const refused = bad(request);
      await expect(refused, JSON.stringify(request)).rejects.toMatchObject({
        status_code: 400,
        error: expect.stringMatching(error),
      });
    }
    const generate = (request: object) => client.generate({ model: 'demo', prompt: 'x', ...request });
    await expect(generate({ suffix: 'y' })).rejects.toMatchObject({
      status_code: 400,
      error: expect.stringMatching(/^suffix: the model 'demo' has no tokens for filling in the middle/),
    });
    await expect(generate({ template: '{{ .Prompt' })).rejects.toMatchObject({ status_code: 400 });
    await expect(generate({ raw: true, context: [1, 2] })).rejects.toMatchObject({ status_code: 400 });
    await expect(generate({ raw: true, system: 'y' })).rejects.toMatchObject({ status_code: 400 });
  });

  it('hears of what is not there', async () => {
    await expect(client.create({ model: 'x', from: 'demo' })).rejects.toMatchObject({ status_code: 501 });
    await expect(client.push({ model: 'demo' })).rejects.toMatchObject({ status_code: 501 });
    await expect(client.copy({ source: 'demo', destination: 'x' })).rejects.toMatchObject({
      status_code: 501,
    });
    await expect(client.pull({ model: 'hf.co/a/b' })).rejects.toMatchObject({ status_code: 501 });
    await expect(client.delete({ model: 'demo' })).rejects.toMatchObject({ status_code: 409 });
  });

  it('hears of a failure inside a stream', async () => {
    const late = new Ollama({ host: url, headers: { 'x-chairlift-timeout-ms': '400' } });
    const read = async () => {
      const request = { model: 'plain', prompt: 'Once', raw: true, stream: true as const };
      for await (const _ of await late.generate({ ...request, options: { ...exact, num_predict: 3000 } }));
    };
    // The model may end before its time is up; then nothing failed.
    await read().catch((error: Error) => expect(error.message).toContain('not complete within 400 ms'));
    const { body } = await server.app.inject({
      method: 'POST',
      url: '/api/chat',
      headers: { 'x-chairlift-timeout-ms': '1' },
      payload: { model: 'demo', messages: story },
    });
    expect(JSON.parse(body.trim().split('\n').at(-1) ?? '')).toEqual({
      error: expect.stringContaining('1 ms'),
    });
  });

  it('aborts, and the engine computes no further', async () => {
    const running = async () => (await server.pool.engine.stats()).running;
    await eventually(async () => expect(await running()).toEqual([]));
    const before = (await server.pool.engine.stats()).requests.cancelled;
    const leaving = new Ollama({ host: url });
    const options = { temperature: 2, num_predict: 3000 };
    const stream = await leaving.generate({
      model: 'plain',
      prompt: 'Once',
      raw: true,
      stream: true,
      options,
    });
    const read = async () => {
      let parts = 0;
      for await (const _ of stream) if (++parts === 3) leaving.abort();
    };
    await expect(read()).rejects.toMatchObject({ name: 'AbortError' });
    await eventually(async () => {
      expect((await server.pool.engine.stats()).requests.cancelled).toBe(before + 1);
    });
    await eventually(async () => expect(await running()).toEqual([]));
  });
});

describe("Ollama's client with texts to embed", () => {
  const texts = ['The fox is quick.', 'The owl is awake.'];

  it('gets the vectors of /v1/embeddings, one for each, with what they took', async () => {
    const expected = await post<CreateEmbeddingResponse>('/v1/embeddings', { input: texts });
    const vectors = expected.data.map(({ embedding }) => embedding);
    const several = await client.embed({ model: 'demo', input: texts });
    expect(several.embeddings).toEqual(vectors);
    expect(several).toMatchObject({ model: 'demo', prompt_eval_count: expected.usage.prompt_tokens });
    expect(several.total_duration).toBeGreaterThan(0);
    expect(several.load_duration).toBeLessThan(several.total_duration);
    const one = await client.embed({ model: 'demo:latest', input: texts[0] ?? '' });
    expect(one).toMatchObject({ model: 'demo:latest', embeddings: [vectors[0]] });
    const { embedding } = await client.embeddings({ model: 'demo', prompt: texts[1] ?? '' });
    expect(embedding).toEqual(vectors[1]);
  });

  it('gets shorter vectors of length 1, and whole ones by 0', async () => {
    const { embeddings } = await client.embed({ model: 'demo', input: texts, dimensions: 8 });
    for (const vector of embeddings) {
      expect(vector).toHaveLength(8);
      expect(vector.reduce((sum, value) => sum + value * value, 0)).toBeCloseTo(1, 5);
    }
    const whole = await client.embed({ model: 'demo', input: 'x', dimensions: 0 });
    expect(whole.embeddings[0]).toHaveLength(server.pool.model.spec.hiddenSize);
  });

  it('has what is too long cut, and is told so, or refused where it wants neither', async () => {
    const small = await testServer({ pool: { blockCount: 8 } });
    const own = new Ollama({ host: await small.listen() });
    const { tokenizer, spec } = small.pool.model;
    const room = 8 * 32;
    const long = 'fox '.repeat(spec.contextLength * tokenizer.longestToken);
    const cut = await small.app.inject({
      method: 'POST',
      url: '/api/embed',
      payload: { model: 'demo', input: ['short', long] },
    });
    const short = tokenizer.encode('short', { bos: true, eos: true }).length;
    expect(cut.json().prompt_eval_count).toBe(short + room);
    expect(cut.headers['x-chairlift-warning']).toBe(`input[1]: cut to ${room} tokens`);
    const again = await own.embed({ model: 'demo', input: 'fox '.repeat(room + 9) });
    expect(again.embeddings[0]).toEqual(cut.json().embeddings[1]);
    const refused = {
      status_code: 400,
      error: expect.stringContaining("This model's maximum context length is"),
    };
    await expect(own.embed({ model: 'demo', input: long, truncate: false })).rejects.toMatchObject(refused);
    await expect(own.embeddings({ model: 'demo', prompt: long })).rejects.toMatchObject(refused);
    await small.close();
  });

  it('loads a model where there is no text', async () => {
    expect(await client.embed({ model: 'demo', input: [] })).toEqual({ model: 'demo', embeddings: [] });
    expect(await client.embed({ model: 'demo', input: '', keep_alive: '5m' })).toMatchObject({
      embeddings: [],
    });
    expect(await client.embeddings({ model: 'demo', prompt: '' })).toEqual({ embedding: [] });
  });

  it('hears what is wrong', async () => {
    const refusals: [object, number, RegExp][] = [
      [{ model: 'nope' }, 404, /^model 'nope' not found/],
      [{ input: 7 }, 400, /^input: must be a text or a list/],
      [{ input: ['a', ''] }, 400, /^input\[1\]: is empty/],
      [{ dimensions: 100_000 }, 400, /^dimensions: must be/],
      [{ keep_alive: 'soon' }, 400, /^keep_alive: must be/],
      [{ input: Array(5000).fill('a') }, 400, /^input: 5000 texts are too many/],
    ];
    for (const [request, status_code, error] of refusals) {
      const refused = client.embed({ model: 'demo', input: 'x', ...request });
      await expect(refused, JSON.stringify(request).slice(0, 80)).rejects.toMatchObject({
        status_code,
        error: expect.stringMatching(error),
      });
    }
    expect(server.pool.leases).toBe(0);
  });
});

describe("Ollama's client with a model that fills gaps", () => {
  it('sees that it does, and has it do so', async () => {
    const marks = { prefix: 260, suffix: 261, middle: 262, repository: undefined, file: undefined };
    const filler = await testServer({ pool: { fillInMiddle: { ...marks, endIds: [] } } });
    const own = new Ollama({ host: await filler.listen() });
    const { capabilities } = await own.show({ model: 'demo' });
    expect(capabilities).toContain('insert');
    const gap = { prompt: 'Once upon', suffix: 'the end.' };
    const answer = await own.generate({ model: 'demo', ...gap, options: { ...exact, num_predict: 6 } });
    const payload = { ...gap, temperature: 0, max_tokens: 6 };
    const text = await filler.app.inject({ method: 'POST', url: '/v1/completions', payload });
    expect(answer.response).toBe(text.json().choices[0].text);
    expect(answer.prompt_eval_count).toBe(text.json().usage.prompt_tokens);
    const atTheStart = { model: 'demo', prompt: '', suffix: 'end', options: { num_predict: 1 } };
    expect((await own.generate(atTheStart)).eval_count).toBe(1);
    await filler.close();
  });
});

describe("Ollama's client with keys", () => {
  it('needs one, and a plain one decides nothing for others', async () => {
    const { server: keyed, secrets } = await startWithKeys({ plain: {}, boss: { admin: true } });
    const host = await keyed.listen();
    const as = (key: string) => new Ollama({ host, headers: { authorization: `Bearer ${key}` } });
    await expect(new Ollama({ host }).list()).rejects.toMatchObject({
      status_code: 401,
      error: expect.stringContaining('API key'),
    });
    await expect(as('wrong').list()).rejects.toMatchObject({ status_code: 401 });
    const request = { model: 'demo', messages: greeting, keep_alive: 0, options: { num_predict: 1 } };
    expect((await as(secrets.plain).chat(request)).done).toBe(true);
    const unload = { model: 'demo', messages: [], keep_alive: 0 };
    await expect(as(secrets.plain).chat(unload)).rejects.toMatchObject({ status_code: 403 });
    expect((await as(secrets.boss).chat(unload)).done_reason).toBe('unload');
    await expect(as(secrets.plain).pull({ model: 'hf.co/a/b' })).rejects.toMatchObject({ status_code: 403 });
    await expect(as(secrets.boss).pull({ model: 'hf.co/a/b' })).rejects.toMatchObject({ status_code: 501 });
    await expect(as(secrets.boss).delete({ model: 'demo' })).rejects.toMatchObject({
      status_code: 409,
      error: expect.stringContaining('models folder'),
    });
  });

  it('is told in a header what was taken without effect', async () => {
    const { call, secrets } = await startWithKeys({ plain: {} });
    const answer = await call(secrets.plain, '/api/chat', {
      model: 'demo',
      messages: greeting,
      stream: false,
      keep_alive: '5m',
      wishes: 3,
      options: { num_predict: 1, num_ctx: 1_000_000, wonder: true, num_gpu: 99 },
    });
    const warning = answer.headers['x-chairlift-warning'];
    for (const name of ['wishes', 'options.wonder', 'options.num_ctx', 'keep_alive']) {
      expect(warning).toContain(name);
    }
    expect(warning).not.toContain('num_gpu');
  });

  it('finds what is for administrators beside /admin alone', async () => {
    const { main, admin } = createServerPair({
      pool: server.pool,
      limiter: new Limiter(),
      settings: defaultSettings,
      logger: pino({ level: 'silent' }),
      version: '0.0.0-test',
    });
    await Promise.all([main.ready(), admin.ready()]);
    const has = (method: 'POST' | 'DELETE', path: string) =>
      [main, admin].map((app) => app.hasRoute({ method, url: path }));
    expect(has('POST', '/api/chat')).toEqual([true, false]);
    expect(has('POST', '/api/pull')).toEqual([false, true]);
    expect(has('DELETE', '/api/delete')).toEqual([false, true]);
    await Promise.all([main.close(), admin.close()]);
  });
});
