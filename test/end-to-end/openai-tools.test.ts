// Tools and structured answers as OpenAI's own library asks for them, over a socket of this machine.

import OpenAI, { BadRequestError } from 'openai';
import { zodFunction, zodResponseFormat } from 'openai/helpers/zod';
import type {
  ChatCompletionCreateParamsNonStreaming,
  ChatCompletionMessageFunctionToolCall,
  ChatCompletionMessageParam,
  ChatCompletionTool,
} from 'openai/resources/chat/completions';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { z } from 'zod';
import { meeting, nora, Person, weatherQuestion } from '../support/demo-dialogues.ts';
import { type TestServer, testServer } from '../support/test-server.ts';

type Params = ChatCompletionCreateParamsNonStreaming;

const user = (content: string): ChatCompletionMessageParam[] => [{ role: 'user', content }];
const askWeather = user(weatherQuestion);
const twoWishes = user(`${weatherQuestion} Also set an alarm for 7:30.`);
const askPerson = user(meeting);

const tool = (name: string, description: string, parameter: string): ChatCompletionTool => ({
  type: 'function',
  function: {
    name,
    description,
    parameters: { type: 'object', properties: { [parameter]: { type: 'string' } }, required: [parameter] },
  },
});
const weather = tool('get_weather', 'Get the weather for a city', 'city');
const alarm = tool('set_alarm', 'Set an alarm at a given time', 'time');
const tools = [weather, alarm];
const alarmByName = { type: 'function', function: { name: 'set_alarm' } } as const;

let server: TestServer;
let client: OpenAI;

beforeAll(async () => {
  server = await testServer();
  client = new OpenAI({ baseURL: `${await server.listen()}/v1`, apiKey: 'any', maxRetries: 0 });
});
afterAll(() => server.close());

const params = (messages: ChatCompletionMessageParam[], extra: Partial<Params> = {}): Params => ({
  model: 'demo',
  messages,
  temperature: 0,
  ...extra,
});

interface Told {
  readonly content: string | null;
  readonly calls: readonly { readonly name: string; readonly arguments: unknown }[];
  readonly reason: string | null;
}

interface Choice {
  readonly message: OpenAI.ChatCompletionMessage;
  readonly finish_reason: string | null;
}

function told({ message, finish_reason: reason }: Choice): Told {
  const calls = (message.tool_calls ?? []) as ChatCompletionMessageFunctionToolCall[];
  return {
    content: message.content || null,
    calls: calls.map(({ function: { name, arguments: given } }) => ({ name, arguments: JSON.parse(given) })),
    reason,
  };
}

/** What comes whole, which is what the library joins out of a stream. */
async function ask(messages: ChatCompletionMessageParam[], extra: Partial<Params> = {}): Promise<Told> {
  const [whole] = (await client.chat.completions.create(params(messages, extra))).choices;
  const { stream: _, ...rest } = params(messages, extra);
  const [joined] = (await client.chat.completions.stream(rest).finalChatCompletion()).choices;
  const answer = told(whole as Choice);
  expect(told(joined as Choice)).toEqual(answer);
  return answer;
}

describe('tools', () => {
  it('are called where the model sees fit, and left alone where it does not', async () => {
    expect(await ask(askWeather, { tools })).toEqual({
      content: null,
      calls: [{ name: 'get_weather', arguments: { city: 'Oslo' } }],
      reason: 'tool_calls',
    });
    const { content, calls, reason } = await ask(user('What is 345 + 278?'), { tools, tool_choice: 'auto' });
    expect(content).toContain('623');
    expect(calls).toEqual([]);
    expect(reason).toBe('stop');
  });

  it('are called where they must be, whatever was said', async () => {
    const { calls } = await ask(user('Hello, who are you?'), { tools, tool_choice: 'required' });
    expect(calls.length).toBeGreaterThan(0);
    for (const { name } of calls) expect(['get_weather', 'set_alarm']).toContain(name);
  });

  it('are called by name, and then once', async () => {
    const { calls } = await ask(askWeather, { tools, tool_choice: alarmByName });
    expect(calls).toEqual([{ name: 'set_alarm', arguments: { time: expect.any(String) } }]);
  });

  it('are not called where they must not be', async () => {
    const { content, calls } = await ask(askWeather, { tools, tool_choice: 'none' });
    expect(content).not.toBeNull();
    expect(calls).toEqual([]);
  });

  it('are held to those that are allowed', async () => {
    const { calls } = await ask(askWeather, {
      tools,
      tool_choice: {
        type: 'allowed_tools',
        allowed_tools: { mode: 'required', tools: [alarmByName as unknown as Record<string, unknown>] },
      },
    });
    expect(new Set(calls.map(({ name }) => name))).toEqual(new Set(['set_alarm']));
  });

  it('are called several at a time, unless one is wanted', async () => {
    const both = await ask(twoWishes, { tools });
    expect(both.calls).toEqual([
      { name: 'get_weather', arguments: { city: 'Oslo' } },
      { name: 'set_alarm', arguments: { time: '7:30' } },
    ]);
    const one = await ask(twoWishes, { tools, parallel_tool_calls: false });
    expect(one.calls).toEqual(both.calls.slice(0, 1));
  });

  it('have ids of their own, which results refer to', async () => {
    const asked = await client.chat.completions.create(params(twoWishes, { tools }));
    const message = asked.choices[0]?.message as OpenAI.ChatCompletionMessage;
    const ids = message.tool_calls?.map(({ id }) => id) ?? [];
    expect(new Set(ids).size).toBe(2);
    const results = ['{"condition": "rainy"}', '{"status": "done"}'].map((content, at) => ({
      role: 'tool' as const,
      tool_call_id: ids[at] as string,
      content,
    }));
    const { content } = await ask([...twoWishes, message, ...results], { tools });
    expect(content).toBe('The condition is rainy. The status is done.');
  });

  it('come back in the chunks of a stream, the name first and once', async () => {
    const names: string[] = [];
    let text = '';
    const { stream: _, ...rest } = params(askWeather, { tools });
    for await (const { choices } of await client.chat.completions.create({ ...rest, stream: true })) {
      for (const call of choices[0]?.delta.tool_calls ?? []) {
        if (call.function?.name !== undefined) names.push(call.function.name);
        else expect(names).toHaveLength(1);
        text += call.function?.arguments ?? '';
      }
    }
    expect(names).toEqual(['get_weather']);
    expect(JSON.parse(text)).toEqual({ city: 'Oslo' });
  });

  it('are named in refusals of what cannot be', async () => {
    const unknown = { type: 'function', function: { name: 'nope' } } as const;
    const wrong = ask(askWeather, { tools, tool_choice: unknown });
    await expect(wrong).rejects.toBeInstanceOf(BadRequestError);
    await expect(wrong).rejects.toMatchObject({ param: 'tool_choice' });
    await expect(ask(askWeather, { tools: [weather, weather] })).rejects.toMatchObject({
      param: 'tools',
    });
  });
});

describe('runTools', () => {
  const asked: string[] = [];
  const runnable = zodFunction({
    name: 'get_weather',
    description: 'Get the weather for a city',
    parameters: z.object({ city: z.string() }),
    function: ({ city }) => {
      asked.push(city);
      return '{"temperature": 7, "condition": "rainy"}';
    },
  });

  it.each([false, true])('goes on until there is an answer; streamed: %s', async (stream) => {
    asked.length = 0;
    const body = { model: 'demo', messages: askWeather, temperature: 0, tools: [runnable] };
    const runner = stream
      ? client.chat.completions.runTools({ ...body, stream })
      : client.chat.completions.runTools(body);
    expect(await runner.finalContent()).toBe('The temperature is 7 and the condition is rainy.');
    expect(asked).toEqual(['Oslo']);
    expect(runner.messages.map(({ role }) => role)).toEqual(['user', 'assistant', 'tool', 'assistant']);
  });
});

describe('structured answers', () => {
  const response_format = zodResponseFormat(Person, 'person');

  it('are parsed, and nothing is refused', async () => {
    const { choices } = await client.chat.completions.parse(params(askPerson, { response_format }));
    expect(choices[0]?.message.parsed).toEqual(nora);
    expect(choices[0]?.message.refusal).toBeNull();
  });

  it('are parsed out of a stream', async () => {
    const { stream: _, ...rest } = params(askPerson);
    const stream = client.chat.completions.stream({ ...rest, response_format });
    const states: unknown[] = [];
    stream.on('content.delta', ({ parsed }) => states.push(parsed));
    const { choices } = await stream.finalChatCompletion();
    expect(choices[0]?.message.parsed).toEqual(nora);
    expect(states).toContainEqual({ name: 'Nora' });
  });

  it('are any object where that is all that is asked', async () => {
    const { content } = await ask(askPerson, { response_format: { type: 'json_object' } });
    expect(JSON.parse(content ?? '')).toEqual(nora);
  });

  it('have the shape that is asked for, though the model would say something else', async () => {
    const Mood = z.object({ mood: z.enum(['glad', 'sad']), reasons: z.array(z.string().max(20)).max(2) });
    const { choices } = await client.chat.completions.parse(
      params(user('Hello, who are you?'), { response_format: zodResponseFormat(Mood, 'mood') }),
    );
    expect(Mood.parse(choices[0]?.message.parsed)).toEqual(choices[0]?.message.parsed);
  });

  it('are parsed as arguments of functions, whole and streamed', async () => {
    const functions = [
      zodFunction({
        name: 'get_weather',
        description: 'Get the weather for a city',
        parameters: z.object({ city: z.string() }),
      }),
    ];
    const whole = await client.chat.completions.parse({ ...params(askWeather), tools: functions });
    const { stream: _, ...rest } = params(askWeather);
    const joined = await client.chat.completions.stream({ ...rest, tools: functions }).finalChatCompletion();
    for (const { message } of [whole.choices[0], joined.choices[0]].flatMap((one) => one ?? [])) {
      expect(message.tool_calls?.map((call) => call.function.parsed_arguments)).toEqual([{ city: 'Oslo' }]);
    }
  });

  it('and tools are possible in one request: a call, or an answer of that shape', async () => {
    const both = { tools, response_format };
    const called = await client.chat.completions.create(params(askWeather, both));
    expect(told(called.choices[0] as Choice).calls).toEqual([
      { name: 'get_weather', arguments: { city: 'Oslo' } },
    ]);
    const answered = await client.chat.completions.create(params(askPerson, both));
    expect(JSON.parse(answered.choices[0]?.message.content ?? '')).toEqual(nora);
  });
});

describe('what clients send back', () => {
  it('is taken with null for what was left out', async () => {
    const message = { role: 'assistant', content: null, refusal: null, annotations: null, audio: null };
    const calls = [
      { id: 'a', type: 'function', function: { name: 'get_weather', arguments: '{"city": "Oslo"}' } },
    ];
    const messages = [
      { ...askWeather[0], name: null, tool_calls: null, tool_call_id: null },
      { ...message, function_call: null, name: null, tool_calls: calls },
      { role: 'tool', tool_call_id: 'a', name: null, content: [{ type: 'text', text: 'sunny' }] },
    ] as unknown as ChatCompletionMessageParam[];
    const { content } = await ask(messages, {
      tools: [
        { ...weather, function: { ...(weather as { function: object }).function, strict: null } } as never,
      ],
    });
    expect(content).toBe('The result is sunny.');
  });
});
