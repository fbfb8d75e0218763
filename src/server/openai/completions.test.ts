// Completions through the whole server with the embedded model, without a socket.

import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { embeddedModelPath } from '../../../test/support/embedded-model.ts';
import { eventually } from '../../../test/support/eventually.ts';
import { messages, sharedServer } from '../../../test/support/keyed-server.ts';
import { chatAnswerSchema, chatChunkSchema, errorSchema, textAnswerSchema } from './schemas/answers.ts';

const story = [{ role: 'user', content: 'Tell me a story about a fox named Milo in the forest.' }];

const shared = sharedServer();
const { post, answer } = shared;
const chat = async (body: object) =>
  chatAnswerSchema.parse(await answer('/v1/chat/completions', { messages, temperature: 0, ...body }));
const text = async (body: object) =>
  textAnswerSchema.parse(await answer('/v1/completions', { temperature: 0, ...body }));

async function events(url: string, body: object): Promise<unknown[]> {
  const response = await post(url, { temperature: 0, stream: true, ...body });
  expect(response.headers['content-type']).toContain('text/event-stream');
  const lines = response.body.split('\n\n').filter((line) => line !== '' && !line.startsWith(':'));
  expect(lines.pop()).toBe('data: [DONE]');
  return lines.map((line) => JSON.parse(line.slice('data: '.length)));
}

async function chatChunks(body: object) {
  return (await events('/v1/chat/completions', { messages, ...body })).map((one) =>
    chatChunkSchema.parse(one),
  );
}

async function refusal(url: string, body: object | string, headers: Record<string, string> = {}) {
  const response = await post(url, body, headers);
  return { status: response.statusCode, ...errorSchema.parse(response.json()).error };
}

describe('a chat completion', () => {
  // Answers by another implementation, where no second token comes close.
  const golden = JSON.parse(readFileSync(embeddedModelPath.replace('.gguf', '.golden.json'), 'utf8')) as {
    completions: { name: string; prompt: string; text: string; promptIds: number[]; greedyIds: number[] }[];
  };

  it.each(['sum', 'copy', 'upper case', 'extraction'])('answers as it was trained to: %s', async (name) => {
    const expected = golden.completions.find((one) => one.name === name);
    const asked = /<\|im_start\|>user\n([\s\S]*)<\|im_end\|>/.exec(expected?.prompt ?? '')?.[1];
    const answer = await chat({ messages: [{ role: 'user', content: asked }] });
    expect(answer.choices[0]?.message.content).toBe(expected?.text.replace('<|im_end|>', ''));
    expect(answer.choices[0]?.finish_reason).toBe('stop');
    expect(answer.usage).toMatchObject({
      prompt_tokens: expected?.promptIds.length,
      completion_tokens: expected?.greedyIds.length,
    });
  });

  it('streams what it answers whole: the role, the text, the reason, the usage', async () => {
    const whole = await chat({});
    const chunks = await chatChunks({ stream_options: { include_usage: true } });
    expect(chunks[0]?.choices[0]?.delta).toEqual({ role: 'assistant', content: '' });
    const content = chunks.map((chunk) => chunk.choices[0]?.delta.content ?? '').join('');
    expect(content).toBe(whole.choices[0]?.message.content);
    expect(chunks.at(-2)?.choices[0]).toMatchObject({ delta: {}, finish_reason: 'stop' });
    expect(chunks.at(-1)?.choices).toEqual([]);
    expect(chunks.at(-1)?.usage).toMatchObject({ completion_tokens: whole.usage.completion_tokens });
    expect(chunks.slice(0, -1).every(({ usage }) => usage === null)).toBe(true);
    expect(new Set(chunks.map(({ id }) => id)).size).toBe(1);
  });

  it('streams no usage unless asked for it', async () => {
    const chunks = await chatChunks({ max_tokens: 2 });
    expect(chunks.every((chunk) => !('usage' in chunk))).toBe(true);
    expect(chunks.at(-1)?.choices[0]?.finish_reason).toBe('length');
  });

  it('returns how much of the prompt was cached', async () => {
    const long = [{ role: 'user', content: 'Milo the fox went to the lake and '.repeat(20) }];
    await chat({ messages: long, max_tokens: 1 });
    const { usage } = await chat({ messages: long, max_tokens: 1 });
    expect(usage.prompt_tokens_details.cached_tokens).toBeGreaterThanOrEqual(32);
    expect(usage.prompt_tokens_details.cached_tokens).toBeLessThan(usage.prompt_tokens);
  });

  it('ends at a stop string that spans tokens, and stops computing', async () => {
    const full = (await chat({ messages: story, max_tokens: 200 })).choices[0]?.message.content ?? '';
    const stop = full.slice(60, 71);
    const before = (await shared.server.pool.engine.stats()).requests.cancelled;
    const answer = await chat({ messages: story, max_tokens: 200, stop });
    expect(answer.choices[0]).toMatchObject({
      message: { content: full.slice(0, full.indexOf(stop)) },
      finish_reason: 'stop',
    });
    expect(answer.usage.completion_tokens).toBeLessThan(60);
    expect((await shared.server.pool.engine.stats()).requests.cancelled).toBe(before + 1);
    const chunks = await chatChunks({ messages: story, max_tokens: 200, stop: ['never', stop] });
    const streamed = chunks.map((chunk) => chunk.choices[0]?.delta.content ?? '').join('');
    expect(streamed).toBe(full.slice(0, full.indexOf(stop)));
  });

  it('gives several answers, the same with stop strings that never come', async () => {
    const body = { messages: story, n: 3, temperature: 1, seed: 11, max_tokens: 30 };
    const plain = await chat(body);
    const texts = plain.choices.map(({ message }) => message.content);
    expect(new Set(texts).size).toBe(3);
    const withStops = await chat({ ...body, stop: ['\u0000'] });
    expect(withStops.choices.map(({ message }) => message.content)).toEqual(texts);
    expect(withStops.usage.prompt_tokens).toBe(plain.usage.prompt_tokens);
    expect(withStops.usage.completion_tokens).toBe(plain.usage.completion_tokens);
    const chunks = await chatChunks(body);
    for (const [index, text] of texts.entries()) {
      const own = chunks.flatMap(({ choices }) => choices.filter((choice) => choice.index === index));
      expect(own.map(({ delta }) => delta.content ?? '').join('')).toBe(text);
    }
  });

  it('ends each of several answers at its own stop string', async () => {
    const body = { messages: story, n: 4, temperature: 1, seed: 5, max_tokens: 60 };
    const plain = await chat(body);
    const stopped = await chat({ ...body, stop: '. ' });
    for (const [index, { message }] of plain.choices.entries()) {
      const at = message.content.indexOf('. ');
      const expected = at === -1 ? message.content : message.content.slice(0, at);
      expect(stopped.choices[index]?.message.content).toBe(expected);
    }
  });

  it('returns log-probabilities that add up to the text', async () => {
    const body = { logprobs: true, top_logprobs: 3, max_tokens: 12 };
    const { choices } = await chat(body);
    const content = choices[0]?.logprobs?.content ?? [];
    expect(content.map(({ token }) => token).join('')).toBe(choices[0]?.message.content);
    for (const { token, logprob, bytes, top_logprobs: top } of content) {
      expect(top).toHaveLength(3);
      expect(top[0]).toMatchObject({ token, logprob });
      expect(Buffer.from(bytes).toString()).toBe(token);
    }
    const chunks = await chatChunks(body);
    expect(chunks.flatMap((chunk) => chunk.choices[0]?.logprobs?.content ?? [])).toEqual(content);
  });

  it('leaves out the token that ends it, and what comes after a stop string', async () => {
    const { choices, usage } = await chat({ logprobs: true });
    expect(choices[0]?.logprobs?.content).toHaveLength(usage.completion_tokens - 1);
    const cut = await chat({ logprobs: true, stop: ' Chairlift' });
    expect(cut.choices[0]?.logprobs?.content.map(({ token }) => token).join('')).toBe(
      cut.choices[0]?.message.content,
    );
  });

  it('obeys the parameters that decide about the end', async () => {
    const { choices } = await chat({ max_tokens: 40, ignore_eos: true });
    expect(choices[0]?.finish_reason).toBe('length');
    const shown = await chat({ max_tokens: 40, ignore_eos: true, skip_special_tokens: false });
    expect(shown.choices[0]?.message.content).toContain('<|im_end|>');
    const [, second] = (await post('/tokenize', { prompt: choices[0]?.message.content ?? '' })).json().tokens;
    const early = await chat({ stop_token_ids: [second] });
    expect(early.usage.completion_tokens).toBe(2);
    expect(early.choices[0]?.finish_reason).toBe('stop');
  });

  it('samples the same for the same seed', async () => {
    const body = { messages: story, temperature: 1, seed: 42, max_tokens: 20 };
    const first = await chat(body);
    expect((await chat(body)).choices).toEqual(first.choices);
    expect((await chat({ ...body, seed: 43 })).choices).not.toEqual(first.choices);
  });

  it('encodes long prompts elsewhere and answers all the same', async () => {
    const long = [{ role: 'user', content: 'Milo the fox went to the lake and swam. '.repeat(300) }];
    const { usage } = await chat({ messages: long, max_tokens: 1 });
    expect(usage.prompt_tokens).toBeGreaterThan(2000);
  });

  it('names unknown parameters in a header', async () => {
    const response = await post('/v1/chat/completions', {
      messages,
      max_tokens: 1,
      temprature: 0,
      user: 'u',
    });
    expect(response.headers['x-chairlift-warning']).toBe('unknown parameters were ignored: temprature');
  });
});

describe('a text completion', () => {
  it('goes on with the text, 16 tokens without a wanted', async () => {
    const { choices, usage } = await text({ prompt: 'Once upon a time' });
    expect(choices[0]?.text).toMatch(/^ there was a /);
    expect(choices[0]?.finish_reason).toBe('length');
    expect(usage?.completion_tokens).toBe(16);
  });

  it('answers several prompts, each as if alone', async () => {
    const prompts = ['Once upon a time', 'The fox', 'A quiet'];
    const { choices } = await text({ prompt: prompts, n: 2, temperature: 1, seed: 3, max_tokens: 8 });
    expect(choices.map(({ index }) => index)).toEqual([0, 1, 2, 3, 4, 5]);
    for (const [at, prompt] of prompts.entries()) {
      const alone = await text({ prompt, n: 2, temperature: 1, seed: 3, max_tokens: 8 });
      const own = choices.slice(2 * at, 2 * at + 2).map((choice) => choice.text);
      expect(own).toEqual(alone.choices.map((choice) => choice.text));
    }
  });

  it('takes token ids, too', async () => {
    const { tokens } = (await post('/tokenize', { prompt: 'Once upon a time' })).json();
    const byText = await text({ prompt: 'Once upon a time' });
    expect((await text({ prompt: tokens })).choices).toEqual(byText.choices);
    expect((await text({ prompt: [tokens, tokens] })).choices).toHaveLength(2);
  });

  it('begins with the prompt where asked to', async () => {
    const plain = await text({ prompt: 'Once upon a time' });
    const echoed = await text({ prompt: 'Once upon a time', echo: true });
    expect(echoed.choices[0]?.text).toBe(`Once upon a time${plain.choices[0]?.text}`);
    const chunks = await events('/v1/completions', { prompt: 'Once upon a time', echo: true });
    const streamed = chunks.map((chunk) => textAnswerSchema.parse(chunk).choices[0]?.text).join('');
    expect(streamed).toBe(echoed.choices[0]?.text);
  });

  it('returns log-probabilities in lists, with where each token begins', async () => {
    const { choices } = await text({ prompt: 'Once upon a time', logprobs: 2, max_tokens: 6 });
    const lists = choices[0]?.logprobs;
    expect(lists?.tokens.join('')).toBe(choices[0]?.text);
    for (const [at, token] of (lists?.tokens ?? []).entries()) {
      expect(choices[0]?.text.slice(lists?.text_offset[at])).toMatch(
        new RegExp(`^${token.replace(/[.*+?^${}()|[\]\\]/g, '\\$&')}`),
      );
      expect(lists?.top_logprobs[at]?.[token]).toBe(lists?.token_logprobs[at]);
    }
  });
});

describe('a request that cannot be served', () => {
  it.each([
    ['/v1/chat/completions', { messages, model: 'nope' }, 404, 'model', 'model_not_found'],
    ['/v1/chat/completions', { messages, model: 'plain' }, 400, 'model', 'no_chat_template'],
    ['/v1/chat/completions', { messages, n: 33 }, 400, 'n', 'invalid_value'],
    ['/v1/chat/completions', { messages, top_logprobs: 2 }, 400, 'top_logprobs', 'invalid_value'],
    [
      '/v1/chat/completions',
      { messages, logprobs: true, top_logprobs: 21 },
      400,
      'top_logprobs',
      'invalid_value',
    ],
    [
      '/v1/chat/completions',
      { messages, max_completion_tokens: 0 },
      400,
      'max_completion_tokens',
      'invalid_value',
    ],
    ['/v1/chat/completions', { messages, stream_options: {} }, 400, 'stream_options', 'invalid_value'],
    [
      '/v1/chat/completions',
      { messages, max_tokens: 1, max_completion_tokens: 2 },
      400,
      'max_tokens',
      'invalid_value',
    ],
    ['/v1/completions', { prompt: '' }, 400, 'prompt', 'invalid_value'],
    ['/v1/completions', { prompt: [999999] }, 400, 'prompt', 'invalid_value'],
    ['/v1/completions', { prompt: 'a', prompt_logprobs: 21 }, 400, 'prompt_logprobs', 'invalid_value'],
    [
      '/v1/completions',
      { prompt: 'a', prompt_logprobs: 1, stream: true },
      400,
      'prompt_logprobs',
      'invalid_value',
    ],
    ['/v1/completions', { prompt: Array(200).fill('a') }, 400, 'prompt', 'invalid_value'],
    ['/detokenize', { tokens: [999999] }, 400, 'tokens', 'invalid_value'],
    ['/tokenize', {}, 400, 'prompt', 'invalid_value'],
  ])('%s %j is %i', async (url, body, status, param, code) => {
    expect(await refusal(url, body)).toMatchObject({ status, param, code });
  });

  it('because the prompt is too long hears the numbers, in words that clients look for', async () => {
    const prompt = Array(5000).fill(5);
    const { status, code, message } = await refusal('/v1/completions', { prompt, stream: true });
    expect({ status, code }).toEqual({ status: 400, code: 'context_length_exceeded' });
    expect(message).toMatch(/^This model's maximum context length is 4096 tokens\. However, .* 5000 tokens/);
  });

  it('because the body is no JSON, too large, or compressed gets the same shape', async () => {
    const broken = await refusal('/v1/chat/completions', '{"messages":');
    expect(broken).toMatchObject({ status: 400, code: 'invalid_json' });
    const huge = JSON.stringify({ prompt: 'x'.repeat(9 * 1024 * 1024) });
    expect(await refusal('/v1/completions', huge)).toMatchObject({ status: 413, code: 'request_too_large' });
    const compressed = await refusal('/v1/completions', '{"prompt":"a"}', { 'content-encoding': 'gzip' });
    expect(compressed).toMatchObject({ status: 415, code: 'unsupported_content_encoding' });
    expect(compressed.message).toMatch(/"gzip"; send the body uncompressed/);
    const plain = { 'content-encoding': 'identity' };
    expect((await post('/v1/completions', { prompt: 'a', max_tokens: 1 }, plain)).statusCode).toBe(200);
    const lost = await shared.server.app.inject({ url: '/v2/nothing' });
    expect(errorSchema.parse(lost.json()).error.code).toBe('unknown_url');
  });

  it('because the engine finds nothing to sample is a proper error even for a stream', async () => {
    const logit_bias = Object.fromEntries(Array.from({ length: 4096 }, (_, id) => [id, -100]));
    const body = {
      messages,
      stream: true,
      min_tokens: 1,
      stop_token_ids: Array.from({ length: 4096 }, (_, id) => id),
    };
    expect(await refusal('/v1/chat/completions', { ...body, logit_bias })).toMatchObject({ status: 400 });
  });

  it('because its time is up hears that, and computes no further', async () => {
    const body = { messages: story, max_tokens: 3000, ignore_eos: true };
    const before = (await shared.server.pool.engine.stats()).requests.cancelled;
    const headers = { 'x-chairlift-timeout-ms': '60' };
    const late = await refusal('/v1/chat/completions', body, headers);
    expect(late).toMatchObject({ status: 408, code: 'deadline_exceeded' });
    const response = await post('/v1/chat/completions', { ...body, stream: true }, headers);
    const last = response.body.trim().split('\n\n').at(-1) ?? '';
    expect(errorSchema.parse(JSON.parse(last.replace('data: ', ''))).error.code).toBe('deadline_exceeded');
    await eventually(async () => {
      expect((await shared.server.pool.engine.stats()).requests.cancelled).toBe(before + 2);
    });
    expect(await refusal('/v1/chat/completions', body, { 'x-chairlift-timeout-ms': 'soon' })).toMatchObject({
      status: 400,
      param: 'x-chairlift-timeout-ms',
    });
  });
});

describe('tokens', () => {
  it('come back as the text they came from', async () => {
    const prompt = 'Grüße, 😀 Milo!\n';
    const { tokens, count } = (await post('/tokenize', { prompt })).json();
    expect(count).toBe(tokens.length);
    expect((await post('/detokenize', { tokens })).json()).toEqual({ prompt, content: prompt });
  });

  it('of messages are those that a chat counts', async () => {
    const { count } = (await post('/tokenize', { messages })).json();
    expect((await chat({ max_tokens: 1 })).usage.prompt_tokens).toBe(count);
  });
});
