// The server as LangChain meets it, over a socket of this machine.

import {
  type AIMessageChunk,
  type BaseMessage,
  HumanMessage,
  type UsageMetadata,
} from '@langchain/core/messages';
import { StringOutputParser } from '@langchain/core/output_parsers';
import { ChatPromptTemplate } from '@langchain/core/prompts';
import { tool } from '@langchain/core/tools';
import { ChatOpenAI, type ChatOpenAIFields, OpenAIEmbeddings } from '@langchain/openai';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { z } from 'zod';
import { greeting, meeting, nora, Person, weatherQuestion } from '../support/demo-dialogues.ts';
import { type TestServer, testServer } from '../support/test-server.ts';

const getWeather = tool(async (_: { city: string }) => '{"temperature": 7, "condition": "rainy"}', {
  name: 'get_weather',
  description: 'Get the weather for a city',
  schema: z.object({ city: z.string() }),
});
const setAlarm = tool(async (_: { time: string }) => '{"status": "done"}', {
  name: 'set_alarm',
  description: 'Set an alarm at a given time',
  schema: z.object({ time: z.string() }),
});
const tools = [getWeather, setAlarm];

let server: TestServer;
let configuration: { baseURL: string };
let chat: ChatOpenAI;

const chatModel = (extra: ChatOpenAIFields = {}) =>
  new ChatOpenAI({ model: 'demo', temperature: 0, apiKey: 'any', maxRetries: 0, configuration, ...extra });

beforeAll(async () => {
  server = await testServer();
  configuration = { baseURL: `${await server.listen()}/v1` };
  chat = chatModel();
});
afterAll(() => server.close());

async function joined(stream: AsyncIterable<AIMessageChunk>): Promise<AIMessageChunk> {
  let whole: AIMessageChunk | undefined;
  for await (const chunk of stream) whole = whole?.concat(chunk) ?? chunk;
  return whole as AIMessageChunk;
}

const outputTokens = ({ usage_metadata: usage }: AIMessageChunk) =>
  (usage as UsageMetadata | undefined)?.output_tokens;

describe('text', () => {
  it('is the same whole and streamed, with usage', async () => {
    const whole = await chat.invoke(greeting);
    expect(whole.text).toContain('demo model');
    expect(outputTokens(whole)).toBeGreaterThan(0);
    const streamed = await joined(await chat.stream(greeting));
    expect(streamed.text).toBe(whole.text);
    expect(outputTokens(streamed)).toBe(outputTokens(whole));
  });

  it('comes through a chain, in batches', async () => {
    const prompt = ChatPromptTemplate.fromMessages([
      ['system', 'You are a helpful assistant.'],
      ['human', 'What is {a} + {b}?'],
    ]);
    const chain = prompt.pipe(chat).pipe(new StringOutputParser());
    const sums = await chain.batch([
      { a: 345, b: 278 },
      { a: 20, b: 31 },
    ]);
    expect(sums[0]).toContain('623');
    expect(sums[1]).toContain('51');
  });
});

describe('tools', () => {
  const oslo = { name: 'get_weather', args: { city: 'Oslo' }, type: 'tool_call' };

  it('are called, whole and streamed', async () => {
    const bound = chat.bindTools(tools);
    expect((await bound.invoke(weatherQuestion)).tool_calls).toMatchObject([oslo]);
    expect((await joined(await bound.stream(weatherQuestion))).tool_calls).toMatchObject([oslo]);
  });

  it.each([
    ['any', 'get_weather'],
    ['required', 'get_weather'],
    ['set_alarm', 'set_alarm'],
  ])('are chosen by %s', async (tool_choice, called) => {
    const bound = chat.bindTools(tools, { tool_choice, parallel_tool_calls: false });
    expect((await bound.invoke(weatherQuestion)).tool_calls?.map(({ name }) => name)).toEqual([called]);
  });

  it('are strict where that is asked', async () => {
    const bound = chat.bindTools(tools, { strict: true });
    expect((await bound.invoke(weatherQuestion)).tool_calls).toMatchObject([oslo]);
  });

  it.each([false, true])('are run by an agent until there is an answer; streamed: %s', async (streaming) => {
    const bound = chat.bindTools(tools);
    const answerTo = async (messages: BaseMessage[]) =>
      streaming ? joined(await bound.stream(messages)) : bound.invoke(messages);
    const messages: BaseMessage[] = [new HumanMessage(`${weatherQuestion} Also set an alarm for 7:30.`)];
    let answer = await answerTo(messages);
    for (let round = 0; round < 3 && (answer.tool_calls?.length ?? 0) > 0; round++) {
      messages.push(answer);
      for (const call of answer.tool_calls ?? []) {
        const found = tools.find(({ name }) => name === call.name);
        messages.push(await (found as typeof getWeather).invoke({ ...call, type: 'tool_call' } as never));
      }
      answer = await answerTo(messages);
    }
    expect(answer.text).toBe('The temperature is 7 and the condition is rainy. The status is done.');
    expect(messages.map((message) => message.getType())).toEqual(['human', 'ai', 'tool', 'tool']);
  });
});

describe('structured output', () => {
  it.each(['jsonSchema', 'functionCalling', 'jsonMode'] as const)('comes by %s', async (method) => {
    const structured = chat.withStructuredOutput(Person, { method, name: 'person' });
    expect(await structured.invoke(meeting)).toEqual(nora);
    let last: unknown;
    for await (const state of await structured.stream(meeting)) last = state;
    expect(last).toEqual(nora);
  });

  it('comes with the message it was read from', async () => {
    const structured = chat.withStructuredOutput(Person, { includeRaw: true, strict: true });
    const { parsed, raw } = await structured.invoke(meeting);
    expect(parsed).toEqual(nora);
    expect(JSON.parse(raw.text)).toEqual(nora);
  });
});

describe('through Responses', () => {
  it('text, tools and structure are the same', async () => {
    const responses = chatModel({ useResponsesApi: true });
    expect((await joined(await responses.stream(greeting))).text).toBe((await chat.invoke(greeting)).text);
    const { tool_calls: calls } = await responses.bindTools(tools).invoke(weatherQuestion);
    expect(calls).toMatchObject([{ name: 'get_weather', args: { city: 'Oslo' } }]);
    const structured = responses.withStructuredOutput(Person, { method: 'jsonSchema', name: 'person' });
    expect(await structured.invoke(meeting)).toEqual(nora);
  });
});

describe('vectors', () => {
  it('are the same for a query and for a document', async () => {
    const embeddings = new OpenAIEmbeddings({ model: 'demo', apiKey: 'any', maxRetries: 0, configuration });
    const text = 'The quick brown fox';
    const query = await embeddings.embedQuery(text);
    expect(query).toHaveLength(server.pool.model.spec.hiddenSize);
    const [document, other] = await embeddings.embedDocuments([text, 'An owl in the tower']);
    expect(document).toEqual(query);
    expect(other).not.toEqual(query);
  });
});
