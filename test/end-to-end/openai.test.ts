// The server as clients meet it: OpenAI's own library, and curl, over a socket of this machine.

import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import OpenAI, {
  APIUserAbortError,
  AuthenticationError,
  BadRequestError,
  NotFoundError,
  RateLimitError,
} from 'openai';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { eventually } from '../support/eventually.ts';
import { type TestServer, testServer } from '../support/test-server.ts';
import { some } from '../support/thorough.ts';

const user = (content: string) => [{ role: 'user' as const, content }];
const greeting = user('Hello, who are you?');
const story = user('Tell me a story about a fox named Milo in the forest.');

let server: TestServer;
let url: string;
let client: OpenAI;

beforeAll(async () => {
  server = await testServer({ settings: { maxQueuedRequests: 128 } });
  url = await server.listen();
  client = new OpenAI({ baseURL: `${url}/v1`, apiKey: 'any', maxRetries: 0 });
});
afterAll(() => server.close());

async function whole(messages: typeof story, extra: object = {}): Promise<string> {
  const answer = await client.chat.completions.create({ model: 'demo', messages, temperature: 0, ...extra });
  return answer.choices[0]?.message.content ?? '';
}

async function streamed(messages: typeof story, extra: object = {}): Promise<string> {
  const body = { model: 'demo', messages, temperature: 0, stream: true as const, ...extra };
  let text = '';
  for await (const chunk of await client.chat.completions.create(body)) {
    text += chunk.choices[0]?.delta.content ?? '';
  }
  return text;
}

describe("OpenAI's client", () => {
  it('lists and finds models', async () => {
    const names: string[] = [];
    for await (const { id } of client.models.list()) names.push(id);
    expect(names).toEqual(['demo', 'plain']);
    expect((await client.models.retrieve('demo')).owned_by).toBe('chairlift');
  });

  it('chats, whole and streamed, with the same words', async () => {
    const text = await whole(greeting);
    expect(text).toContain('demo model');
    expect(await streamed(greeting)).toBe(text);
  });

  it('gathers a stream into the answer it would have got whole, with usage', async () => {
    const body = { model: 'demo', messages: greeting, temperature: 0 };
    const answer = await client.chat.completions.create(body);
    const gathered = await client.chat.completions
      .stream({ ...body, stream_options: { include_usage: true } })
      .finalChatCompletion();
    expect(gathered.choices[0]?.message.content).toBe(answer.choices[0]?.message.content);
    expect(gathered.choices[0]?.finish_reason).toBe('stop');
    expect(gathered.usage?.completion_tokens).toBe(answer.usage?.completion_tokens);
    expect(gathered.system_fingerprint).toBe(answer.system_fingerprint);
  });

  it('embeds, and reads base64 as the numbers it stands for', async () => {
    const input = ['The quick brown fox', 'An owl in the tower'];
    const { data, usage } = await client.embeddings.create({ model: 'demo', input });
    const plain = await client.embeddings.create({ model: 'demo', input, encoding_format: 'float' });
    expect(data.map(({ embedding }) => embedding)).toEqual(plain.data.map(({ embedding }) => embedding));
    expect(data[0]?.embedding.length).toBe(server.pool.model.spec.hiddenSize);
    expect(usage.total_tokens).toBe(usage.prompt_tokens);
    const cut = await client.embeddings.create({ model: 'demo', input: input[0] as string, dimensions: 8 });
    expect(cut.data[0]?.embedding.length).toBe(8);
    const empty = client.embeddings.create({ model: 'demo', input: '', dimensions: 8 });
    await expect(empty).rejects.toBeInstanceOf(BadRequestError);
  });

  it('gets several answers and log-probabilities', async () => {
    const { choices } = await client.chat.completions.create({
      model: 'demo',
      messages: story,
      n: 3,
      seed: 7,
      max_completion_tokens: 10,
      logprobs: true,
      top_logprobs: 2,
    });
    expect(choices.map(({ index }) => index)).toEqual([0, 1, 2]);
    for (const { message, logprobs } of choices) {
      expect(logprobs?.content?.map(({ token }) => token).join('')).toBe(message.content);
      expect(logprobs?.content?.every(({ top_logprobs: top }) => top.length === 2)).toBe(true);
    }
  });

  it('stops where it is told to', async () => {
    const full = await whole(story, { max_tokens: 60 });
    const stop = full.slice(40, 48);
    const expected = full.slice(0, full.indexOf(stop));
    expect(await whole(story, { max_tokens: 60, stop })).toBe(expected);
    expect(await streamed(story, { max_tokens: 60, stop: ['nowhere', stop] })).toBe(expected);
  });

  it('completes texts', async () => {
    const { choices, usage } = await client.completions.create({
      model: 'demo',
      prompt: ['Once upon a time', 'Once upon a time there was'],
      temperature: 0,
      max_tokens: 5,
    });
    expect(choices).toHaveLength(2);
    expect(usage?.completion_tokens).toBe(10);
    let text = '';
    const body = { model: 'demo', prompt: 'Once upon a time', temperature: 0, max_tokens: 5 };
    for await (const chunk of await client.completions.create({ ...body, stream: true })) {
      text += chunk.choices[0]?.text ?? '';
    }
    expect(text).toBe(choices[0]?.text);
  });

  it('aborts, and the engine computes no further', async () => {
    const before = (await server.pool.engine.stats()).requests.cancelled;
    const stream = await client.chat.completions.create({
      model: 'demo',
      messages: story,
      stream: true,
      ...({ ignore_eos: true } as object),
    });
    let chunks = 0;
    for await (const _ of stream) if (++chunks === 5) break;
    const controller = new AbortController();
    const asked = client.chat.completions.create(
      { model: 'demo', messages: story, ...({ ignore_eos: true } as object) },
      { signal: controller.signal },
    );
    setTimeout(() => controller.abort(), 50);
    await expect(asked).rejects.toBeInstanceOf(APIUserAbortError);
    await eventually(async () => {
      expect((await server.pool.engine.stats()).requests.cancelled).toBe(before + 2);
    });
    expect((await server.pool.engine.stats()).running).toEqual([]);
  });

  it('gets errors as its own classes', async () => {
    const lost = client.chat.completions.create({ model: 'nope', messages: greeting });
    await expect(lost).rejects.toBeInstanceOf(NotFoundError);
    await expect(lost).rejects.toMatchObject({ code: 'model_not_found', param: 'model' });
    const wrong = client.chat.completions.create({ model: 'demo', messages: greeting, temperature: -1 });
    await expect(wrong).rejects.toBeInstanceOf(BadRequestError);
    await expect(wrong).rejects.toMatchObject({ param: 'temperature', type: 'invalid_request_error' });
    await expect(wrong).rejects.toHaveProperty('requestID', expect.stringMatching(/^req_/));
    const long = client.completions.create({ model: 'demo', prompt: Array(5000).fill(5) });
    await expect(long).rejects.toMatchObject({ status: 400, code: 'context_length_exceeded' });
  });

  it('hears of a failure inside a stream', async () => {
    const late = client.chat.completions.create(
      { model: 'demo', messages: story, stream: true, ...({ ignore_eos: true } as object) },
      { headers: { 'x-chairlift-timeout-ms': '400' } },
    );
    const read = async () => {
      for await (const _ of await late);
    };
    await expect(read()).rejects.toMatchObject({ code: 'deadline_exceeded' });
  });

  it('is told to wait, or that its key is wrong', async () => {
    const guarded = await testServer({
      keys: {
        status: async () => 'live' as const,
        findById: async () => undefined,
        findByKey: async (key) =>
          key === 'good'
            ? {
                id: 'key_1',
                name: 'good',
                prefix: 'good',
                tier: 'normal',
                admin: false,
                createdMs: 0,
                limits: { requestsPerMinute: 1 },
              }
            : undefined,
      },
    });
    try {
      const baseURL = `${await guarded.listen()}/v1`;
      const ask = (apiKey: string) =>
        new OpenAI({ baseURL, apiKey, maxRetries: 0 }).chat.completions.create({
          model: 'demo',
          messages: greeting,
          max_tokens: 1,
        });
      await expect(ask('bad')).rejects.toBeInstanceOf(AuthenticationError);
      await ask('good');
      await expect(ask('good')).rejects.toBeInstanceOf(RateLimitError);
    } finally {
      await guarded.close();
    }
  });

  it('64 times at once gets answers as if each were alone', async () => {
    const asked = Array.from({ length: 64 }, (_, n) => ({
      messages: user(`Tell me a story about a fox named Milo, number ${n % 16}.`),
      extra: { seed: n, temperature: n % 2 === 0 ? 0 : 1, max_tokens: 12 + (n % 20) },
    }));
    const together = await Promise.all(asked.map(({ messages, extra }) => streamed(messages, extra)));
    for (const [n, { messages, extra }] of some([...asked.entries()]))
      expect(await whole(messages, extra)).toBe(together[n]);
  });
});

const run = promisify(execFile);
const hasCurl = await run('curl', ['--version']).then(
  () => true,
  () => false,
);

describe.skipIf(!hasCurl)('curl (skipped where it is not installed)', () => {
  const curl = async (path: string, ...args: string[]) =>
    (await run('curl', ['-sS', ...args, `${url}${path}`])).stdout;
  const json = (body: object) => ['-H', 'content-type: application/json', '-d', JSON.stringify(body)];

  it('chats', async () => {
    const body = { model: 'demo', messages: greeting, temperature: 0 };
    const answer = JSON.parse(await curl('/v1/chat/completions', ...json(body)));
    expect(answer.choices[0].message.content).toBe(await whole(greeting));
  });

  it('streams', async () => {
    const body = { model: 'demo', messages: greeting, temperature: 0, stream: true };
    const lines = (await curl('/v1/chat/completions', '-N', ...json(body))).trim().split('\n\n');
    expect(lines.at(-1)).toBe('data: [DONE]');
    const text = lines
      .slice(0, -1)
      .map((line) => JSON.parse(line.slice(6)).choices[0].delta.content ?? '')
      .join('');
    expect(text).toBe(await whole(greeting));
  });

  it('need not say that its body is JSON', async () => {
    const body = JSON.stringify({ model: 'demo', messages: greeting, temperature: 0 });
    const answer = JSON.parse(await curl('/v1/chat/completions', '-d', body));
    expect(answer.choices[0].message.content).toBe(await whole(greeting));
  });
});
