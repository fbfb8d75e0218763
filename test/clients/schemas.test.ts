// Every kind of answer, held to the types that its clients publish: pydantic's models of the Python packages, without
// coercion.

import { describe, expect, it } from 'vitest';
import { missing, python, runProgram } from '../support/clients.ts';
import { greeting, weatherQuestion } from '../support/demo-dialogues.ts';
import { demoServer } from './demo-server.ts';

const reason = missing('python');
const title = 'an answer is what the types of its client say';
const url = demoServer();

type Typed = readonly [type: string, value: unknown];

async function ask(path: string, body?: object, method = body === undefined ? 'GET' : 'POST') {
  const response = await fetch(url() + path, {
    method,
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    ...(path.includes('anthropic') ? { headers: { 'anthropic-version': '2023-06-01' } } : {}),
  });
  return response.text();
}

const json = async (...asked: Parameters<typeof ask>): Promise<Record<string, unknown>> =>
  JSON.parse(await ask(...asked));

/** The events of a stream, whichever protocol it is. */
async function events(path: string, body: object): Promise<unknown[]> {
  const lines = (await ask(path, body)).split('\n');
  return lines
    .map((line) => line.replace(/^data: /, ''))
    .filter((line) => line.startsWith('{'))
    .map((line) => JSON.parse(line));
}

/** What the types do not take; an empty list where they take all. */
async function problems(values: readonly Typed[]): Promise<unknown[]> {
  const input = values.map((value) => JSON.stringify(value)).join('\n');
  const program = 'test/clients/python/schemas.py';
  const { code, output, errors } = await runProgram(python, [program], { input });
  if (code !== 0) throw new Error(errors);
  return output
    .split('\n')
    .filter(Boolean)
    .map((line) => JSON.parse(line));
}

const messages = [{ role: 'user', content: greeting }];
const question = [{ role: 'user', content: weatherQuestion }];
const parameters = { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] };
const weather = { name: 'get_weather', description: 'Get the weather for a city' };
const chatTools = [{ type: 'function', function: { ...weather, parameters } }];
const common = { model: 'demo', temperature: 0 };

describe.skipIf(reason !== undefined)(reason === undefined ? title : `${title} (skipped: ${reason})`, () => {
  it('in chats of openai, whole and streamed, with calls, log-probabilities and usage', async () => {
    const variants = [
      { messages },
      { messages, logprobs: true, top_logprobs: 2, n: 2 },
      { messages, max_tokens: 1, service_tier: 'auto' },
      { messages: question, tools: chatTools, tool_choice: 'required' },
      { messages, response_format: { type: 'json_object' } },
    ];
    const values: Typed[] = [];
    for (const body of variants) {
      values.push([
        'openai.types.chat.ChatCompletion',
        await json('/v1/chat/completions', { ...common, ...body }),
      ]);
      const streamed = { ...common, ...body, stream: true, stream_options: { include_usage: true } };
      for (const event of await events('/v1/chat/completions', streamed)) {
        values.push(['openai.types.chat.ChatCompletionChunk', event]);
      }
    }
    expect(await problems(values)).toEqual([]);
  });

  it('in texts, vectors, models and files of openai', async () => {
    const text = { ...common, prompt: ['Once', 'There'], max_tokens: 4, logprobs: 2 };
    const values: Typed[] = [
      ['openai.types.Completion', await json('/v1/completions', text)],
      [
        'openai.types.CreateEmbeddingResponse',
        await json('/v1/embeddings', { ...common, input: ['a', 'b'] }),
      ],
      ['openai.types.Model', await json('/v1/models/demo')],
    ];
    for (const event of await events('/v1/completions', { ...text, stream: true })) {
      // The type knows only the last chunk's reason; OpenAI itself sends null before.
      const [choice] = (event as { choices: { finish_reason: string | null }[] }).choices;
      if (choice?.finish_reason === null) choice.finish_reason = 'stop';
      values.push(['openai.types.Completion', event]);
    }
    for (const model of (await json('/v1/models')).data as object[])
      values.push(['openai.types.Model', model]);
    const form = new FormData();
    const line = {
      custom_id: 'a',
      method: 'POST',
      url: '/v1/completions',
      body: { prompt: 'Once', max_tokens: 2 },
    };
    form.append('file', new Blob([JSON.stringify(line)]), 'in.jsonl');
    form.append('purpose', 'batch');
    const file = (await (await fetch(`${url()}/v1/files`, { method: 'POST', body: form })).json()) as {
      id: string;
    };
    values.push(['openai.types.FileObject', file]);
    const order = { input_file_id: file.id, endpoint: '/v1/completions', completion_window: '24h' };
    const batch = await json('/v1/batches', order);
    values.push(['openai.types.Batch', batch]);
    const ended = async () => {
      const found = await json(`/v1/batches/${batch.id}`);
      values.push(['openai.types.Batch', found]);
      return found.status;
    };
    await expect.poll(ended, { timeout: 60_000 }).toBe('completed');
    values.push(['openai.types.FileDeleted', await json(`/v1/files/${file.id}`, undefined, 'DELETE')]);
    expect(await problems(values)).toEqual([]);
  });

  it('in responses of openai, whole and streamed, with items, calls and log-probabilities', async () => {
    const tools = [{ type: 'function', ...weather, parameters, strict: true }];
    const variants = [
      { input: greeting, metadata: { a: 'b' }, include: ['message.output_text.logprobs'], top_logprobs: 2 },
      { input: weatherQuestion, tools, tool_choice: 'required' },
      { input: greeting, max_output_tokens: 1, instructions: 'Be short.', reasoning: { effort: 'low' } },
    ];
    const values: Typed[] = [];
    for (const body of variants) {
      const made = await json('/v1/responses', { ...common, ...body });
      values.push(['openai.types.responses.Response', made]);
      values.push(['openai.types.responses.Response', await json(`/v1/responses/${made.id}`)]);
      const given = await json(`/v1/responses/${made.id}/input_items`);
      values.push(['openai.types.responses.ResponseItemList', given]);
      for (const event of await events('/v1/responses', { ...common, ...body, stream: true })) {
        values.push(['openai.types.responses.ResponseStreamEvent', event]);
      }
    }
    expect(await problems(values)).toEqual([]);
  });

  it('in messages of anthropic, whole and streamed, with thinking, calls and counts', async () => {
    const tools = [{ ...weather, input_schema: parameters }];
    const variants = [
      { messages, system: 'Be kind.' },
      { messages, stop_sequences: ['e'] },
      { messages: question, tools, tool_choice: { type: 'any' } },
    ];
    const values: Typed[] = [
      [
        'anthropic.types.MessageTokensCount',
        await json('/v1/messages/count_tokens', { ...common, messages }),
      ],
      ['anthropic.types.ErrorResponse', await json('/v1/messages', { ...common, messages })],
    ];
    for (const given of variants) {
      const body = { ...common, max_tokens: 60, ...given };
      values.push(['anthropic.types.Message', await json('/v1/messages', body)]);
      for (const event of await events('/v1/messages', { ...body, stream: true })) {
        // Clients pass over pings before they look at types.
        if ((event as { type: string }).type !== 'ping')
          values.push(['anthropic.types.RawMessageStreamEvent', event]);
      }
    }
    for (const model of (await json('/v1/models?anthropic')).data as object[]) {
      values.push(['anthropic.types.ModelInfo', model]);
    }
    const params = { ...common, max_tokens: 4, messages };
    const requests = [
      { custom_id: 'a', params },
      { custom_id: 'b', params: { ...params, max_tokens: 0 } },
    ];
    const batch = await json('/v1/messages/batches', { requests });
    const path = `/v1/messages/batches/${batch.id}`;
    const ended = async () => {
      const found = await json(path);
      values.push(['anthropic.types.messages.MessageBatch', found]);
      return found.processing_status;
    };
    await expect.poll(ended, { timeout: 60_000 }).toBe('ended');
    for (const line of (await ask(`${path}/results`)).trim().split('\n')) {
      values.push(['anthropic.types.messages.MessageBatchIndividualResponse', JSON.parse(line)]);
    }
    values.push(['anthropic.types.messages.DeletedMessageBatch', await json(path, undefined, 'DELETE')]);
    expect(await problems(values)).toEqual([]);
  });

  it('in answers to ollama, whole and as lines', async () => {
    const chat = { ...common, messages: question, tools: chatTools, options: { temperature: 0 } };
    const generate = { model: 'demo', prompt: greeting, logprobs: true, top_logprobs: 2 };
    const values: Typed[] = [
      ['ollama.ChatResponse', await json('/api/chat', { ...chat, stream: false })],
      ['ollama.GenerateResponse', await json('/api/generate', { ...generate, stream: false })],
      ['ollama.EmbedResponse', await json('/api/embed', { model: 'demo', input: ['a', 'b'] })],
      ['ollama.EmbeddingsResponse', await json('/api/embeddings', { model: 'demo', prompt: 'a' })],
      ['ollama.ListResponse', await json('/api/tags')],
      ['ollama.ProcessResponse', await json('/api/ps')],
      ['ollama.ShowResponse', await json('/api/show', { model: 'demo' })],
    ];
    for (const line of await events('/api/chat', chat)) values.push(['ollama.ChatResponse', line]);
    for (const line of await events('/api/generate', generate))
      values.push(['ollama.GenerateResponse', line]);
    expect(await problems(values)).toEqual([]);
  });
});
