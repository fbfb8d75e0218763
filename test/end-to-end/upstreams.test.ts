// Two servers as processes of their own, one the other's upstream, asked through the clients that people use; and the upstream killed.

import Anthropic from '@anthropic-ai/sdk';
import { Ollama } from 'ollama';
import OpenAI from 'openai';
import { beforeAll, describe, expect, it } from 'vitest';
import { type ServerProcess, serverHome, waitUntil } from '../support/server-process.ts';
import { freePort } from '../support/upstream-servers.ts';

const messages = [{ role: 'user' as const, content: 'Hello, who are you?' }];
const greedy = { model: 'far', max_tokens: 20, temperature: 0 };

describe('a server with an upstream', () => {
  const farHome = serverHome();
  const nearHome = serverHome();
  let far: ServerProcess;
  let near: ServerProcess;
  let farKey: string;
  /** There are no keys at the server that is asked: any will do, and none must reach the upstream. */
  const key = 'sk-of-a-client';

  const ask = async (server: ServerProcess, path: string, itsKey: string) => {
    const response = await fetch(`${server.url}${path}`, { headers: { 'x-api-key': itsKey } });
    return (await response.json()) as { data: { id: string }[] } & Record<string, number>;
  };
  /** What a server has counted. */
  const used = async (server: ServerProcess, itsKey: string) =>
    (await ask(server, '/admin/usage', itsKey)).data[0] as unknown as Record<
      'requests' | 'errors' | 'promptTokens' | 'completionTokens',
      number
    >;

  beforeAll(async () => {
    const port = await freePort();
    const upstream = {
      name: 'up',
      url: `http://127.0.0.1:${port}/v1`,
      keyVariable: 'UP_KEY',
      models: [{ name: 'default', as: 'far' }],
    };
    farKey = farHome.createKey('near', 'normal', '--admin');
    nearHome.environment = { UP_KEY: farKey, CHAIRLIFT_UPSTREAMS: JSON.stringify([upstream]) };
    [far, near] = await Promise.all([farHome.start('--port', String(port)), nearHome.start()]);
  });

  const openai = () => new OpenAI({ baseURL: `${near.url}/v1`, apiKey: key, maxRetries: 0 });
  const text = 'I am a small demo model shipped with Chairlift. I know only a small world; for real answers';

  it('answers the clients of OpenAI, Anthropic and Ollama, streamed and whole', async () => {
    const whole = await openai().chat.completions.create({ ...greedy, messages });
    expect(whole.choices[0]?.message.content).toBe(text);
    let streamed = '';
    const chunks = await openai().chat.completions.create({
      ...greedy,
      messages,
      stream: true,
      stream_options: { include_usage: true },
    });
    let tokens: number | undefined;
    for await (const chunk of chunks) {
      streamed += chunk.choices[0]?.delta.content ?? '';
      tokens = chunk.usage?.completion_tokens ?? tokens;
    }
    expect([streamed, tokens]).toEqual([text, 20]);
    const response = await openai().responses.create({
      model: 'far',
      input: messages,
      max_output_tokens: 20,
      temperature: 0,
      store: true,
    });
    expect(response.output_text).toBe(text);
    const next = await openai().responses.create({
      model: 'far',
      input: 'Go on.',
      previous_response_id: response.id,
      max_output_tokens: 16,
    });
    expect(next.output_text).not.toBe('');

    const anthropic = new Anthropic({ baseURL: near.url, apiKey: key, maxRetries: 0 });
    const message = await anthropic.messages.stream({ ...greedy, messages }).finalMessage();
    expect(message.content).toMatchObject([{ type: 'text', text }]);
    expect(message.usage).toMatchObject({ output_tokens: 20, input_tokens: whole.usage?.prompt_tokens });

    const ollama = new Ollama({ host: near.url, headers: { authorization: `Bearer ${key}` } });
    const { models } = await ollama.list();
    expect(models.map(({ name }) => name)).toContain('far');
    let said = '';
    const lines = await ollama.chat({
      model: 'far',
      messages,
      stream: true,
      options: { num_predict: 20, temperature: 0 },
    });
    for await (const line of lines) said += line.message.content;
    expect(said).toBe(text);
  });

  it('counts for its client what the upstream counts for it', async () => {
    const { promptTokens, completionTokens, requests } = await used(far, farKey);
    expect(await used(near, key)).toMatchObject({ promptTokens, completionTokens, requests, errors: 0 });
    expect(requests).toBe(6);
  });

  it('never shows a key of the other', () => {
    const shown = near.log() + near.output() + far.log() + far.output();
    expect(shown).not.toContain(farKey);
    expect(shown).not.toContain(key);
    expect(shown).toContain('"upstream":{"name":"up"');
  });

  it('ends the answer there when a client leaves', async () => {
    const running = async () => (await ask(far, '/load', farKey)).server_load;
    const endless = { model: 'far', prompt: 'Once', max_tokens: 1000, stream: true as const };
    const stream = await openai().completions.create(endless);
    for await (const _ of stream) break;
    await waitUntil(async () => (await running()) === 0);
  });

  it('tells a client that the upstream was killed in the middle of an answer, and answers itself', async () => {
    const before = await used(near, key);
    const stream = await openai().completions.create({
      model: 'far',
      prompt: 'Once',
      max_tokens: 1000,
      stream: true,
    });
    let pieces = 0;
    let failure: unknown;
    try {
      for await (const chunk of stream) {
        if (chunk.choices[0]?.text) pieces++;
        if (pieces === 5) far.signal('SIGKILL');
      }
    } catch (error) {
      failure = error;
    }
    expect(failure).toMatchObject({
      message: expect.stringMatching(/the upstream 'up' broke the connection/),
    });
    await expect(openai().chat.completions.create({ ...greedy, messages })).rejects.toMatchObject({
      status: 502,
      code: 'upstream_unreachable',
    });
    const local = await openai().chat.completions.create({ messages, model: 'default', max_tokens: 5 });
    expect(local.choices[0]?.message.content).not.toBe('');
    const after = await used(near, key);
    expect(after).toMatchObject({ requests: before.requests + 3, errors: before.errors + 2 });
    // What was delivered, and the five tokens of the local answer.
    expect(after.completionTokens).toBeGreaterThanOrEqual(before.completionTokens + pieces + 5);
  });
});
