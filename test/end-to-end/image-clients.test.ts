// Images as the libraries send them that clients are written with: OpenAI's, Anthropic's and Ollama's, and llama-server's form.
// What they ask is the same, and so is the answer.

import { readFileSync } from 'node:fs';
import Anthropic, { BadRequestError } from '@anthropic-ai/sdk';
import { Ollama } from 'ollama';
import OpenAI from 'openai';
import { beforeAll, describe, expect, it } from 'vitest';
import { hasAddon } from '../support/native.ts';
import { type ServerProcess, serverHome } from '../support/server-process.ts';
import { hasTestdata, testdata } from '../support/testdata.ts';

const question = 'What is this?';
const TOKENS = 8;
const model = 'eyes';

describe.skipIf(!hasTestdata)('images from clients of others', () => {
  const home = serverHome();
  let server: ServerProcess;
  let openai: OpenAI;
  let anthropic: Anthropic;
  let ollama: Ollama;
  let file: Buffer;
  let data: string;
  let other: string;
  /** To the question about the picture, and to it about another one. */
  let answers: readonly string[];
  let promptTokens: number;

  beforeAll(async () => {
    file = readFileSync(testdata('vision', 'images', 'gray-333x187.png'));
    data = file.toString('base64');
    other = readFileSync(testdata('vision', 'images', 'palette-120x90.gif')).toString('base64');
    const backend = hasAddon ? 'cpu' : 'reference';
    server = await home.start('--backend', backend, '--model', `${model}=${testdata('vision', 'qwen3_vl')}`);
    openai = new OpenAI({ baseURL: `${server.url}/v1`, apiKey: 'any', maxRetries: 0 });
    anthropic = new Anthropic({ baseURL: server.url, apiKey: 'any', maxRetries: 0 });
    ollama = new Ollama({ host: server.url });
    const asked = await Promise.all([chatted(url()), chatted(`data:image/gif;base64,${other}`)]);
    answers = asked.map(({ choices }) => choices[0]?.message.content ?? '');
    promptTokens = asked[0]?.usage?.prompt_tokens ?? 0;
    expect(answers[0]).not.toBe('');
    expect(answers[1]).not.toBe(answers[0]);
  });

  const url = () => `data:image/png;base64,${data}`;
  const content = (address: string): OpenAI.ChatCompletionContentPart[] => [
    { type: 'image_url', image_url: { url: address } },
    { type: 'text', text: question },
  ];
  const exact = { temperature: 0, ignore_eos: true };
  const chatBody = (address: string) => ({
    model,
    max_tokens: TOKENS,
    messages: [{ role: 'user' as const, content: content(address) }],
    ...exact,
  });
  const chatted = (address: string) => openai.chat.completions.create(chatBody(address));

  describe("OpenAI's", () => {
    it('streams the answer of a chat', async () => {
      let text = '';
      for await (const chunk of await openai.chat.completions.create({ ...chatBody(url()), stream: true })) {
        text += chunk.choices[0]?.delta.content ?? '';
      }
      expect(text).toBe(answers[0]);
    });

    it('asks for a response, and further in the same conversation', async () => {
      const input: OpenAI.Responses.ResponseInput = [
        {
          role: 'user',
          content: [
            { type: 'input_image', image_url: url(), detail: 'auto' },
            { type: 'input_text', text: question },
          ],
        },
      ];
      const body = { model, input, max_output_tokens: TOKENS, ...exact };
      const response = await openai.responses.create(body);
      expect(response.output_text).toBe(answers[0]);
      expect(response.usage?.input_tokens).toBe(promptTokens);
      const next = await openai.responses.create({
        model,
        input: 'And now?',
        max_output_tokens: TOKENS,
        previous_response_id: response.id,
        ...exact,
      });
      expect(next.usage?.input_tokens).toBeGreaterThan(promptTokens);
    });

    it('uploads an image, and asks for a response by its id', async () => {
      const { id } = await openai.files.create({
        file: new File([new Uint8Array(file)], 'gray.png', { type: 'image/png' }),
        purpose: 'vision',
      });
      const response = await openai.responses.create({
        model,
        max_output_tokens: TOKENS,
        input: [
          {
            role: 'user',
            content: [
              { type: 'input_image', file_id: id, detail: 'auto' },
              { type: 'input_text', text: question },
            ],
          },
        ],
        ...exact,
      });
      expect(response.output_text).toBe(answers[0]);
    });

    it('learns what a model reads', async () => {
      expect(await openai.models.retrieve(model)).toMatchObject({
        modalities: expect.arrayContaining(['image']),
      });
    });
  });

  describe("Anthropic's", () => {
    const image = (bytes: string, media_type: 'image/png' | 'image/gif'): Anthropic.ImageBlockParam => ({
      type: 'image',
      source: { type: 'base64', media_type, data: bytes },
    });
    const asked = (): Anthropic.MessageParam[] => [
      { role: 'user', content: [image(data, 'image/png'), { type: 'text', text: question }] },
    ];
    const textOf = ({ content: blocks }: Anthropic.Message) =>
      blocks.map((block) => (block.type === 'text' ? block.text : '')).join('');

    it('asks, streams and counts', async () => {
      const body = { model, max_tokens: TOKENS, messages: asked(), ...exact };
      const message = await anthropic.messages.create(body);
      expect(textOf(message)).toBe(answers[0]);
      expect(textOf(await anthropic.messages.stream(body).finalMessage())).toBe(answers[0]);
      const counted = await anthropic.messages.countTokens({ model, messages: asked() });
      expect(counted.input_tokens).toBe(promptTokens);
    });

    it('shows what a tool has seen', async () => {
      const turn = (bytes: string, type: 'image/png' | 'image/gif'): Anthropic.MessageParam[] => [
        { role: 'user', content: 'Look.' },
        { role: 'assistant', content: [{ type: 'tool_use', id: 'toolu_1', name: 'look', input: {} }] },
        {
          role: 'user',
          content: [{ type: 'tool_result', tool_use_id: 'toolu_1', content: [image(bytes, type)] }],
        },
      ];
      const tools: Anthropic.Tool[] = [{ name: 'look', input_schema: { type: 'object', properties: {} } }];
      const ask = async (messages: Anthropic.MessageParam[]) =>
        anthropic.messages.create({ model, max_tokens: TOKENS, tools, messages, ...exact });
      const [one, another] = [await ask(turn(data, 'image/png')), await ask(turn(other, 'image/gif'))];
      expect(one.usage.input_tokens).toBeGreaterThan(promptTokens / 2);
      expect(JSON.stringify(one.content)).not.toBe(JSON.stringify(another.content));
    });

    it('reads what is wrong with an image', async () => {
      const messages: Anthropic.MessageParam[] = [{ role: 'user', content: [image('AAAA', 'image/png')] }];
      const refused = await anthropic.messages
        .create({ model, max_tokens: 1, messages })
        .catch((error) => error);
      expect(refused).toBeInstanceOf(BadRequestError);
      expect(refused.message).toContain('messages[0].content[0]');
    });
  });

  describe("Ollama's", () => {
    const options = { temperature: 0, num_predict: TOKENS, ignore_eos: true } as object;

    it('chats about images as bytes and as base64, whole and streamed', async () => {
      for (const images of [[new Uint8Array(file)], [data]]) {
        const messages = [{ role: 'user', content: question, images }];
        const { message, prompt_eval_count } = await ollama.chat({ model, messages, options });
        expect(message.content).toBe(answers[0]);
        expect(prompt_eval_count).toBe(promptTokens);
        let text = '';
        for await (const part of await ollama.chat({ model, messages, options, stream: true })) {
          text += part.message.content;
        }
        expect(text).toBe(answers[0]);
      }
    });

    it('generates from a prompt with images', async () => {
      const { response } = await ollama.generate({ model, prompt: question, images: [data], options });
      expect(response).toBe(answers[0]);
    });

    it('learns what a model can', async () => {
      expect((await ollama.show({ model })).capabilities).toContain('vision');
    });
  });

  it("is llama-server's, too: a prompt with marks", async () => {
    const prompt = await openaiPrompt();
    const response = await fetch(`${server.url}/completion`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({
        prompt: { prompt_string: prompt, multimodal_data: [data] },
        n_predict: TOKENS,
        ...exact,
      }),
    });
    const { content: text, tokens_evaluated } = (await response.json()) as {
      content: string;
      tokens_evaluated: number;
    };
    expect(text).toBe(answers[0]);
    expect(tokens_evaluated).toBe(promptTokens);
  });

  /** The conversation as the template writes it, with llama-server's mark for the image. */
  async function openaiPrompt(): Promise<string> {
    const response = await fetch(`${server.url}/apply-template`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ messages: [{ role: 'user', content: `<__media__>${question}` }] }),
    });
    return ((await response.json()) as { prompt: string }).prompt;
  }
});
