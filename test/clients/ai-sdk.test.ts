// The server as the AI SDK's providers for OpenAI and Anthropic meet it. They hold every answer and every event to schemas of
// their own, and fail where one is not as they have it.

import { createRequire } from 'node:module';
import { generateObject, generateText, type LanguageModel, stepCountIs, streamText, tool } from 'ai';
import { beforeAll, describe, expect, it } from 'vitest';
import { z } from 'zod';
import { missing, npmFolder } from '../support/clients.ts';
import { greeting, meeting, nora, Person, weatherQuestion } from '../support/demo-dialogues.ts';
import { demoServer } from './demo-server.ts';

type Provider = ((name: string) => LanguageModel) & Record<string, (name: string) => LanguageModel>;

const reason = missing('npm');
const title = reason === undefined ? 'the AI SDK' : `the AI SDK (skipped: ${reason})`;
const url = demoServer();
Object.assign(globalThis, { AI_SDK_LOG_WARNINGS: false });

const tools = {
  get_weather: tool({
    description: 'Get the weather for a city',
    inputSchema: z.object({ city: z.string() }),
    execute: async () => '{"temperature": 7, "condition": "rainy"}',
  }),
};

describe.skipIf(reason !== undefined)(title, () => {
  const models: Record<string, LanguageModel> = {};

  beforeAll(() => {
    const load = createRequire(`${npmFolder}/`);
    const settings = { baseURL: `${url()}/v1`, apiKey: 'none' };
    const anthropic = load('@ai-sdk/anthropic').createAnthropic(settings) as Provider;
    const openai = load('@ai-sdk/openai').createOpenAI(settings) as Provider;
    models.anthropic = anthropic('demo');
    models.chat = openai.chat?.('demo') as LanguageModel;
    models.responses = openai.responses?.('demo') as LanguageModel;
  });

  const options = (kind: string) => ({ model: models[kind] as LanguageModel, temperature: 0, maxRetries: 0 });

  describe.each(['anthropic', 'chat', 'responses'])('by %s', (kind) => {
    it('generates and streams the same text, with usage', async () => {
      const { text, usage, finishReason } = await generateText({ ...options(kind), prompt: greeting });
      expect(text).toContain('demo model');
      expect(finishReason).toBe('stop');
      const stream = streamText({ ...options(kind), prompt: greeting });
      let streamed = '';
      for await (const part of stream.fullStream) {
        if (part.type === 'error') throw part.error;
        if (part.type === 'text-delta') streamed += part.text;
      }
      expect(streamed).toBe(text);
      expect((await stream.usage).outputTokens).toBe(usage.outputTokens);
    });

    it('calls a tool and answers with its result', async () => {
      const asked = { ...options(kind), tools, stopWhen: stepCountIs(3), prompt: weatherQuestion };
      const { steps, text } = await generateText(asked);
      expect(steps[0]?.toolCalls[0]).toMatchObject({ toolName: 'get_weather', input: { city: 'Oslo' } });
      expect(text).toContain('7');
    });

    it('makes an object of a schema', async () => {
      const { object } = await generateObject({ ...options(kind), schema: Person, prompt: meeting });
      expect(object).toEqual(nora);
    });
  });
});
