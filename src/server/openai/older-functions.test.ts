// `functions` and `best_of` through the whole server with the embedded model.

import { describe, expect, it } from 'vitest';
import { sharedServer } from '../../../test/support/keyed-server.ts';

const { post } = sharedServer();
const parameters = { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] };
const functions = [{ name: 'get_weather', description: 'Get the weather for a city', parameters }];
const question = { role: 'user', content: 'What is the weather in Oslo?' };
const common = { temperature: 0, messages: [question] };
const chat = async (body: object) => (await post('/v1/chat/completions', { ...common, ...body })).json();

describe('functions', () => {
  it('are called as tools are, in their own form, whole and streamed', async () => {
    const called = await chat({ functions });
    const [{ message, finish_reason: reason }] = called.choices;
    expect(reason).toBe('function_call');
    expect(message).not.toHaveProperty('tool_calls');
    expect(message.function_call.name).toBe('get_weather');
    expect(JSON.parse(message.function_call.arguments)).toEqual({ city: 'Oslo' });
    const asTools = await chat({
      tools: functions.map((one) => ({ type: 'function', function: one })),
      parallel_tool_calls: false,
    });
    expect(asTools.choices[0].message.tool_calls[0].function).toEqual(message.function_call);
    const { body } = await post('/v1/chat/completions', { ...common, functions, stream: true });
    const chunks = body
      .split('\n')
      .filter((line) => line.startsWith('data: {'))
      .map((line) => JSON.parse(line.slice(6)).choices[0]);
    const calls = chunks.flatMap(({ delta }) => delta.function_call ?? []);
    expect(calls.map((one) => one.name).filter(Boolean)).toEqual(['get_weather']);
    expect(calls.map((one) => one.arguments).join('')).toBe(message.function_call.arguments);
    expect(chunks.at(-1).finish_reason).toBe('function_call');
  });

  it('may be forced and forbidden', async () => {
    const greeting = [{ role: 'user', content: 'Hello' }];
    const forced = await chat({ messages: greeting, functions, function_call: { name: 'get_weather' } });
    expect(forced.choices[0].message.function_call.name).toBe('get_weather');
    const forbidden = await chat({ functions, function_call: 'none' });
    expect(forbidden.choices[0].message).not.toHaveProperty('function_call');
  });

  it('have their results in messages of the role function', async () => {
    const function_call = { name: 'get_weather', arguments: '{"city": "Oslo"}' };
    const result = '{"temperature": 7, "condition": "rainy"}';
    const older = await chat({
      functions,
      messages: [
        question,
        { role: 'assistant', content: null, function_call },
        { role: 'function', name: 'get_weather', content: result },
      ],
    });
    const calls = [{ id: 'call00001', type: 'function', function: function_call }];
    const newer = await chat({
      tools: functions.map((one) => ({ type: 'function', function: one })),
      messages: [
        question,
        { role: 'assistant', content: null, tool_calls: calls },
        { role: 'tool', tool_call_id: 'call00001', name: 'get_weather', content: result },
      ],
    });
    expect(older.choices[0].message.content).toBe(newer.choices[0].message.content);
    expect(older.usage.prompt_tokens).toBe(newer.usage.prompt_tokens);
  });

  it('are refused next to tools', async () => {
    const tools = [{ type: 'function', function: { name: 'other' } }];
    expect((await chat({ functions, tools })).error).toMatchObject({ param: 'functions' });
  });
});

describe('best_of', () => {
  const body = {
    prompt: ['Once upon a time', 'The fox'],
    max_tokens: 8,
    temperature: 1.5,
    seed: 5,
    logprobs: 0,
  };
  const mean = ({ logprobs }: { logprobs: { token_logprobs: number[] } }) =>
    logprobs.token_logprobs.reduce((sum, one) => sum + one, 0) / logprobs.token_logprobs.length;

  it('returns the likeliest of the answers that n would, the best first, and charges all', async () => {
    const all = (await post('/v1/completions', { ...body, n: 4 })).json();
    const best = (await post('/v1/completions', { ...body, n: 2, best_of: 4 })).json();
    const expected = [0, 4].flatMap((from) =>
      all.choices
        .slice(from, from + 4)
        .sort((one: never, other: never) => mean(other) - mean(one))
        .slice(0, 2),
    );
    expect(best.choices.map(({ text }: { text: string }) => text)).toEqual(
      expected.map(({ text }: { text: string }) => text),
    );
    expect(best.choices.map(({ index }: { index: number }) => index)).toEqual([0, 1, 2, 3]);
    expect(best.usage.completion_tokens).toBe(all.usage.completion_tokens);
    const plain = (await post('/v1/completions', { ...body, logprobs: undefined, best_of: 4 })).json();
    expect(plain.choices.map((one: { logprobs: unknown }) => one.logprobs)).toEqual([null, null]);
    expect(plain.choices[0].text).toBe(best.choices[0].text);
  });

  it.each([[{ best_of: 1, n: 2 }], [{ best_of: 2, stream: true }]])('is refused as %j', async (more) => {
    const response = await post('/v1/completions', { ...body, ...more });
    expect(response.statusCode).toBe(400);
    expect(response.json().error.param).toBe('best_of');
  });
});
