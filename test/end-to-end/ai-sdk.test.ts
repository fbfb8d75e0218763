// The server as Vercel's AI SDK meets it, over a socket of this machine.

import { createOpenAICompatible } from '@ai-sdk/openai-compatible';
import {
  APICallError,
  cosineSimilarity,
  embed,
  embedMany,
  generateObject,
  generateText,
  Output,
  stepCountIs,
  streamObject,
  streamText,
  ToolLoopAgent,
  tool,
} from 'ai';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { z } from 'zod';
import { greeting, meeting, nora, Person, weatherQuestion } from '../support/demo-dialogues.ts';
import { type TestServer, testServer } from '../support/test-server.ts';

const weatherAnswer = 'The temperature is 7 and the condition is rainy.';

const tools = {
  get_weather: tool({
    description: 'Get the weather for a city',
    inputSchema: z.object({ city: z.string() }),
    execute: async () => '{"temperature": 7, "condition": "rainy"}',
  }),
  set_alarm: tool({
    description: 'Set an alarm at a given time',
    inputSchema: z.object({ time: z.string() }),
    execute: async () => '{"status": "done"}',
  }),
};

let server: TestServer;
let provider: ReturnType<typeof createOpenAICompatible>;
let common: { model: ReturnType<typeof provider>; temperature: number; maxRetries: number };

beforeAll(async () => {
  server = await testServer();
  provider = createOpenAICompatible({
    name: 'chairlift',
    baseURL: `${await server.listen()}/v1`,
    includeUsage: true,
    supportsStructuredOutputs: true,
  });
  common = { model: provider('demo'), temperature: 0, maxRetries: 0 };
});
afterAll(() => server.close());

/** The stream of pieces is the text that it ends with. */
async function gathered(pieces: AsyncIterable<string>): Promise<string> {
  let text = '';
  for await (const piece of pieces) text += piece;
  return text;
}

describe('text', () => {
  it('is generated and streamed, with the same words and usage', async () => {
    const { text, finishReason, usage } = await generateText({ ...common, prompt: greeting });
    expect(text).toContain('demo model');
    expect(finishReason).toBe('stop');
    expect(usage.outputTokens).toBeGreaterThan(0);
    const stream = streamText({ ...common, prompt: greeting });
    expect(await gathered(stream.textStream)).toBe(text);
    expect((await stream.usage).outputTokens).toBe(usage.outputTokens);
  });

  it('that cannot be is an error of its own', async () => {
    const asked = generateText({ model: provider('nope'), prompt: 'x', maxRetries: 0 });
    await expect(asked).rejects.toBeInstanceOf(APICallError);
    await expect(asked).rejects.toThrow(/nope/);
  });
});

describe('objects', () => {
  it('are generated as their schema says', async () => {
    const { object, finishReason, warnings } = await generateObject({
      ...common,
      schema: Person,
      prompt: meeting,
    });
    expect(object).toEqual(nora);
    expect(finishReason).toBe('stop');
    expect(warnings ?? []).toEqual([]);
  });

  it('are generated without a schema', async () => {
    const { object } = await generateObject({ ...common, output: 'no-schema', prompt: meeting });
    expect(object).toEqual(nora);
  });

  it('may be one of several words, or a list', async () => {
    const choice = { ...common, output: 'enum' as const, enum: ['glad', 'sad'] };
    expect(['glad', 'sad']).toContain((await generateObject({ ...choice, prompt: greeting })).object);
    const list = { ...common, output: 'array' as const, schema: z.object({ name: z.string().max(12) }) };
    const { object } = await generateObject({ ...list, prompt: meeting, maxOutputTokens: 500 });
    expect(Array.isArray(object)).toBe(true);
  });

  it('are streamed, and grow', async () => {
    const stream = streamObject({ ...common, schema: Person, prompt: meeting });
    const states: unknown[] = [];
    for await (const state of stream.partialObjectStream) states.push(state);
    expect(states).toContainEqual({ name: 'Nora', age: 34 });
    expect(await stream.object).toEqual(nora);
  });

  it('are the output of a text', async () => {
    const output = Output.object({ schema: Person });
    expect((await generateText({ ...common, output, prompt: meeting })).output).toEqual(nora);
    const stream = streamText({ ...common, output, prompt: meeting });
    expect(JSON.parse(await gathered(stream.textStream))).toEqual(nora);
    expect(await stream.output).toEqual(nora);
  });
});

describe('tools', () => {
  const loop = { tools, stopWhen: stepCountIs(5) };

  it('are run until there is an answer', async () => {
    const { text, steps } = await generateText({ ...common, ...loop, prompt: weatherQuestion });
    expect(steps.map(({ finishReason }) => finishReason)).toEqual(['tool-calls', 'stop']);
    expect(steps[0]?.toolCalls).toMatchObject([{ toolName: 'get_weather', input: { city: 'Oslo' } }]);
    expect(text).toBe(weatherAnswer);
  });

  it('are run in a stream', async () => {
    const stream = streamText({ ...common, ...loop, prompt: weatherQuestion });
    const kinds = new Set<string>();
    for await (const { type } of stream.fullStream) kinds.add(type);
    for (const kind of ['tool-input-delta', 'tool-call', 'tool-result', 'text-delta'])
      expect(kinds).toContain(kind);
    expect(kinds).not.toContain('error');
    expect(await stream.text).toBe(weatherAnswer);
    expect(await stream.steps).toHaveLength(2);
  });

  it('are run two at a time', async () => {
    const prompt = 'What is the weather in Oslo? Also set an alarm for 7:30.';
    const { text, steps } = await generateText({ ...common, ...loop, prompt });
    expect(steps[0]?.toolCalls.map(({ toolName }) => toolName)).toEqual(['get_weather', 'set_alarm']);
    expect(text).toBe(`${weatherAnswer} The status is done.`);
  });

  it('are chosen: one by its name, any, or none', async () => {
    const called = async (toolChoice: Parameters<typeof generateText<typeof tools>>[0]['toolChoice']) => {
      const asked = { ...common, tools, prompt: weatherQuestion, ...(toolChoice ? { toolChoice } : {}) };
      return (await generateText(asked)).toolCalls.map(({ toolName }) => toolName);
    };
    expect(await called({ type: 'tool', toolName: 'set_alarm' })).toEqual(['set_alarm']);
    expect((await called('required')).length).toBeGreaterThan(0);
    expect(await called('none')).toEqual([]);
  });

  it('are run on the way to an object', async () => {
    const output = Output.object({ schema: z.object({ condition: z.string().max(20) }) });
    const { output: object, steps } = await generateText({
      ...common,
      ...loop,
      output,
      prompt: weatherQuestion,
      prepareStep: ({ stepNumber }) => ({ toolChoice: stepNumber === 0 ? 'required' : 'none' }),
    });
    expect(steps).toHaveLength(2);
    expect(object).toEqual({ condition: expect.any(String) });
  });

  it('are an agent', async () => {
    const { model, ...settings } = common;
    const agent = new ToolLoopAgent({ model, ...settings, ...loop });
    expect((await agent.generate({ prompt: weatherQuestion })).text).toBe(weatherAnswer);
    expect(await gathered((await agent.stream({ prompt: weatherQuestion })).textStream)).toBe(weatherAnswer);
  });
});

describe('vectors', () => {
  it('are the same for one text and for many', async () => {
    const model = provider.embeddingModel('demo');
    const value = 'The quick brown fox';
    const { embedding, usage } = await embed({ model, value });
    expect(embedding).toHaveLength(server.pool.model.spec.hiddenSize);
    expect(usage.tokens).toBeGreaterThan(0);
    const { embeddings } = await embedMany({ model, values: [value, 'An owl in the tower'] });
    expect(embeddings[0]).toEqual(embedding);
    expect(cosineSimilarity(embedding, embeddings[1] as number[])).toBeLessThan(0.999);
  });
});
