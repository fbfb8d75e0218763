// Parameters of vLLM's and llama-server's clients, through the whole server with the embedded model.

import { describe, expect, it } from 'vitest';
import { messages, sharedServer } from '../../../test/support/keyed-server.ts';
import type { ShapeOptions } from '../jobs/answer-shape.ts';
import type { RequestContext } from '../request/request-scope.ts';
import { chatProtocol } from './chat.ts';
import { chatAnswerSchema, chatChunkSchema, errorSchema, textAnswerSchema } from './schemas/answers.ts';

const { post, answer } = sharedServer();
const prompt = 'Once upon a time there was a fox named Milo. He lived in';
const text = async (body: object) =>
  textAnswerSchema.parse(await answer('/v1/completions', { prompt, temperature: 0, ...body }));
const chat = async (body: object) =>
  chatAnswerSchema.parse(await answer('/v1/chat/completions', { messages, temperature: 0, ...body }));
const tokenize = async (body: object) => ((await answer('/tokenize', body)) as { tokens: number[] }).tokens;

async function chunks(url: string, body: object): Promise<unknown[]> {
  const response = await post(url, { temperature: 0, stream: true, ...body });
  const lines = response.body.split('\n\n').filter((line) => line.startsWith('data: {'));
  return lines.map((line) => JSON.parse(line.slice(6)));
}

async function refused(url: string, body: object): Promise<string | null> {
  const response = await post(url, body);
  expect(response.statusCode).toBe(400);
  return errorSchema.parse(response.json()).error.param;
}

describe('n_predict', () => {
  it('is another name of max_tokens', async () => {
    expect((await text({ n_predict: 5 })).usage?.completion_tokens).toBe(5);
    expect((await chat({ n_predict: 3 })).usage.completion_tokens).toBe(3);
    // Without a limit the answer has more than the default.
    expect((await text({ n_predict: -1, ignore_eos: true, stop: ['.'] })).choices[0]?.finish_reason).toBe(
      'stop',
    );
    expect(await refused('/v1/completions', { prompt, n_predict: 5, max_tokens: 6 })).toBe('n_predict');
  });
});

describe('include_stop_str_in_output', () => {
  it('shows the stop string, streamed and whole, and a stop token', async () => {
    const plain = (await text({ max_tokens: 40 })).choices[0]?.text as string;
    const stop = plain.slice(20, 25);
    const before = plain.slice(0, plain.indexOf(stop));
    const body = { max_tokens: 40, stop, include_stop_str_in_output: true };
    expect((await text({ max_tokens: 40, stop })).choices[0]?.text).toBe(before);
    expect((await text(body)).choices[0]).toMatchObject({ text: before + stop, finish_reason: 'stop' });
    const streamed = (await chunks('/v1/completions', { prompt, ...body })).map((one) =>
      textAnswerSchema.parse(one),
    );
    expect(streamed.map(({ choices }) => choices[0]?.text).join('')).toBe(before + stop);
    const { token_ids: ids = [] } = (await text({ max_tokens: 4, return_token_ids: true })).choices[0] ?? {};
    const byId = { max_tokens: 9, stop_token_ids: [ids[3]], include_stop_str_in_output: true };
    const four = (await text({ max_tokens: 4 })).choices[0]?.text;
    expect((await text(byId)).choices[0]).toMatchObject({ text: four, finish_reason: 'stop' });
  });
});

describe('truncate_prompt_tokens', () => {
  it('leaves the last tokens of a prompt, which are echoed', async () => {
    const tokens = await tokenize({ prompt });
    const last = await text({ prompt: tokens.slice(-6), max_tokens: 8 });
    const cut = await text({ truncate_prompt_tokens: 6, max_tokens: 8, echo: true });
    expect(cut.usage?.prompt_tokens).toBe(6);
    expect(cut.choices[0]?.text.endsWith(last.choices[0]?.text as string)).toBe(true);
    expect(
      prompt.endsWith(cut.choices[0]?.text.slice(0, -(last.choices[0]?.text.length as number)) as string),
    ).toBe(true);
    const long = await text({ prompt: prompt.repeat(500), truncate_prompt_tokens: -1, max_tokens: 1 });
    expect(long.usage?.prompt_tokens).toBeGreaterThan(500);
    expect(await refused('/v1/completions', { prompt, truncate_prompt_tokens: 0 })).toBe(
      'truncate_prompt_tokens',
    );
  });
});

describe('return_token_ids', () => {
  it('names the tokens of prompt and answer, streamed and whole', async () => {
    const tokens = await tokenize({ prompt });
    const { choices } = await text({ return_token_ids: true, max_tokens: 6 });
    expect(choices[0]?.prompt_token_ids).toEqual(tokens);
    expect(choices[0]?.token_ids?.length).toBe(6);
    const streamed = (await chunks('/v1/completions', { prompt, return_token_ids: true, max_tokens: 6 })).map(
      (one) => textAnswerSchema.parse(one).choices[0],
    );
    expect(streamed.flatMap((choice) => choice?.prompt_token_ids ?? [])).toEqual(tokens);
    expect(streamed.flatMap((choice) => choice?.token_ids ?? [])).toEqual(choices[0]?.token_ids);
    const whole = await chat({ return_token_ids: true });
    expect(whole.prompt_token_ids).toEqual(await tokenize({ messages }));
    expect(whole.choices[0]?.token_ids?.length).toBe(whole.usage.completion_tokens);
    const parts = (await chunks('/v1/chat/completions', { messages, return_token_ids: true })).map((one) =>
      chatChunkSchema.parse(one),
    );
    expect(parts[0]?.prompt_token_ids).toEqual(whole.prompt_token_ids);
    expect(parts.flatMap((one) => one.choices[0]?.token_ids ?? [])).toEqual(whole.choices[0]?.token_ids);
  });

  it('is told from return_tokens_as_token_ids, which names tokens of log-probabilities', async () => {
    const { choices } = await text({
      return_tokens_as_token_ids: true,
      return_token_ids: true,
      logprobs: 1,
      max_tokens: 3,
    });
    expect(choices[0]?.logprobs?.tokens).toEqual(choices[0]?.token_ids?.map((id) => `token_id:${id}`));
  });
});

describe('timings_per_token', () => {
  it('come with every chunk of the answer and count the tokens so far', async () => {
    const body = { messages, timings_per_token: true, max_tokens: 5 };
    const parts = (await chunks('/v1/chat/completions', body)).map((one) => chatChunkSchema.parse(one));
    expect(parts[0]?.timings).toBeUndefined();
    expect(parts.slice(1).every(({ timings }) => timings !== undefined)).toBe(true);
    expect(parts.at(-1)?.timings?.predicted_n).toBe(5);
  });
});

describe('timings', () => {
  it('come with every whole answer, and what the prefix cache had is not among what was computed', async () => {
    const long = [{ role: 'user', content: 'A fox. '.repeat(40) }];
    await chat({ messages: long, max_tokens: 1 });
    const { timings, usage } = await chat({ messages: long, max_tokens: 5 });
    const { cached_tokens: cached } = usage.prompt_tokens_details;
    expect(cached).toBeGreaterThan(0);
    expect(timings).toMatchObject({
      predicted_n: 5,
      cache_n: cached,
      prompt_n: usage.prompt_tokens - cached,
    });
  });

  it('come with the usage of a stream, and with no other chunk', async () => {
    const body = { messages, max_tokens: 5, stream_options: { include_usage: true } };
    const parts = (await chunks('/v1/chat/completions', body)).map((one) => chatChunkSchema.parse(one));
    expect(parts.filter(({ timings }) => timings !== undefined)).toEqual([parts.at(-1)]);
    expect(parts.at(-1)?.timings?.predicted_n).toBe(5);
  });
});

describe('verbose', () => {
  it('returns the prompt that the model saw, whole and at the end of a stream', async () => {
    const body = { messages, max_tokens: 2, verbose: true };
    const { __verbose: seen } = await chat(body);
    expect(seen?.prompt).toContain(messages[0]?.content);
    const parts = (await chunks('/v1/chat/completions', body)).map((one) => chatChunkSchema.parse(one));
    expect(parts.at(-1)).toMatchObject({ choices: [], __verbose: seen });
    expect(await chat({ max_tokens: 2 })).not.toHaveProperty('__verbose');
  });
});

describe('cache_salt', () => {
  it('keeps a prefix to requests of the same salt', async () => {
    const long = `${prompt} the wide green forest by the lake `.repeat(10);
    const cached = async (body: object) =>
      (await text({ prompt: long, max_tokens: 1, ...body })).usage?.prompt_tokens_details.cached_tokens;
    expect(await cached({ cache_salt: 'a' })).toBe(0);
    expect(await cached({ cache_salt: 'a' })).toBeGreaterThan(0);
    expect(await cached({ cache_salt: 'b' })).toBe(0);
    expect(await cached({})).toBe(0);
  });
});

describe('t_max_predict_ms', () => {
  it('ends an answer with a line break in time', async () => {
    const body = { max_tokens: 400, ignore_eos: true, t_max_predict_ms: 1 };
    const lines = await text({ ...body, logit_bias: await lineBreaks(), temperature: 1, seed: 1 });
    expect(lines.usage?.completion_tokens).toBeLessThan(400);
    expect(lines.choices[0]?.finish_reason).toBe('length');
  });

  async function lineBreaks(): Promise<Record<string, number>> {
    const [token] = (await tokenize({ prompt: '\n', add_special_tokens: false })).slice(-1);
    return { [String(token)]: 8 };
  }
});

describe('include_reasoning', () => {
  const piece = {
    parts: [{ kind: 'reasoning', text: 'hm' } as const, { kind: 'content', text: 'yes' } as const],
    details: [],
  };
  const whole = {
    index: 0,
    tokens: [],
    text: 'yes',
    reasoning: 'hm',
    calls: [],
    details: [],
    reason: 'stop' as const,
    stop: undefined,
  };
  const options = { base: { id: 'x' }, prompts: [], times: () => ({}) } as unknown as ShapeOptions;
  const usage = { promptTokens: 1, cachedTokens: 0, completionTokens: 2 };
  const shown = (include_reasoning: boolean) => {
    const shape = chatProtocol.shape(options, { messages: [], include_reasoning }, {} as RequestContext);
    return JSON.stringify([shape.piece(0, piece), shape.whole([whole], usage)]);
  };

  it('leaves out what the model reasons, and nothing else', () => {
    expect(shown(true)).toContain('hm');
    expect(shown(false)).not.toContain('hm');
    expect(shown(false)).toContain('yes');
  });
});
