// OpenAI's Responses as its own library uses them, over a socket of this machine.

import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import OpenAI, { AuthenticationError, BadRequestError, NotFoundError } from 'openai';
import { zodResponsesFunction, zodTextFormat } from 'openai/helpers/zod';
import type { FunctionTool, Response, ResponseStreamEvent } from 'openai/resources/responses/responses';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { z } from 'zod';
import { deletedSchema, inputItemsSchema, responseSchema } from '../../src/server/responses/answers.ts';
import type { ConversationItem } from '../../src/server/responses/items.ts';
import type { Database } from '../../src/store/database.ts';
import { KeyRing } from '../../src/store/key-ring.ts';
import { KeyStore } from '../../src/store/key-store.ts';
import { openDatabase } from '../../src/store/open-database.ts';
import { ResponseStore } from '../../src/store/response-store.ts';
import { eventually } from '../support/eventually.ts';
import { type TestServer, testServer } from '../support/test-server.ts';

const model = 'demo';
const input = 'Hello, who are you?';
const story = 'Tell me a story about a fox named Milo in the forest.';
const endless = { ignore_eos: true } as object;
const weather: FunctionTool = {
  type: 'function',
  name: 'get_weather',
  description: 'Get the current weather in a city.',
  parameters: {
    type: 'object',
    properties: { city: { type: 'string' } },
    required: ['city'],
    additionalProperties: false,
  },
  strict: true,
};

interface House {
  readonly server: TestServer;
  readonly url: string;
  readonly database: Database;
  close(): Promise<void>;
}

const keys: string[] = [];
let folder: string;
let house: House;
let client: OpenAI;
let otherAccount: OpenAI;

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'chairlift-responses-'));
  const database = await openDatabase(join(folder, 'a.db'));
  for (const name of ['one', 'two']) {
    const made = await new KeyStore(database).createKey({ name, tier: 'normal', limits: {} }, Date.now());
    if (made.ok) keys.push(made.key);
  }
  database.close();
  await open();
});
afterAll(async () => {
  await house.close();
  rmSync(folder, { recursive: true });
});

async function open(): Promise<void> {
  const database = await openDatabase(join(folder, 'a.db'));
  const onProblem = (error: unknown) => expect.fail(String(error));
  const keyStore = new KeyStore(database);
  const responses = new ResponseStore<ConversationItem>(database, { keepMs: 1e9, maxBytes: 1e8 }, onProblem);
  const server = await testServer({
    keys: await KeyRing.open(database, keyStore, onProblem),
    keyStore,
    responses,
  });
  const url = await server.listen();
  house = {
    server,
    url,
    database,
    async close() {
      await server.close();
      await responses.close();
      database.close();
    },
  };
  client = clientOf(keys[0] as string);
  otherAccount = clientOf(keys[1] as string);
}

function clientOf(apiKey: string, baseURL = `${house.url}/v1`): OpenAI {
  return new OpenAI({ baseURL, apiKey, maxRetries: 0 });
}

async function gather(stream: AsyncIterable<ResponseStreamEvent>): Promise<ResponseStreamEvent[]> {
  const events: ResponseStreamEvent[] = [];
  for await (const event of stream) events.push(event);
  return events;
}

/** What differs between any two responses. */
function comparable({ output, ...response }: Response): object {
  const { id: _, created_at: _c, completed_at: _d, usage, ...rest } = response;
  const nameless = output.map((item) => ({ ...item, id: '', ...('call_id' in item ? { call_id: '' } : {}) }));
  return { ...rest, output: nameless, tokens: usage?.output_tokens };
}

describe('a response', () => {
  it('answers a text, whole, with everything the object has', async () => {
    const response = await client.responses.create({ model, input, temperature: 0, metadata: { a: 'b' } });
    expect(response.output_text).toContain('demo model');
    expect(response).toMatchObject({
      id: expect.stringMatching(/^resp_[0-9a-f]{32}$/),
      object: 'response',
      status: 'completed',
      error: null,
      incomplete_details: null,
      instructions: null,
      model: 'demo',
      output: [
        {
          id: expect.stringMatching(/^msg_/),
          type: 'message',
          role: 'assistant',
          status: 'completed',
          content: [{ type: 'output_text', annotations: [] }],
        },
      ],
      parallel_tool_calls: true,
      previous_response_id: null,
      store: true,
      temperature: 0,
      text: { format: { type: 'text' } },
      tool_choice: 'auto',
      tools: [],
      top_p: 1,
      truncation: 'disabled',
      metadata: { a: 'b' },
    });
    const { usage } = response;
    expect(usage?.input_tokens).toBeGreaterThan(5);
    expect(usage?.output_tokens).toBeGreaterThan(5);
    expect(usage?.total_tokens).toBe((usage?.input_tokens ?? 0) + (usage?.output_tokens ?? 0));
    expect(usage?.input_tokens_details.cached_tokens).toBeGreaterThanOrEqual(0);
    expect(usage?.output_tokens_details.reasoning_tokens).toBe(0);
  });

  it('is what the OpenAPI document says, at every end it can have', async () => {
    const call = async (path: string, body?: object, method = body === undefined ? 'GET' : 'POST') => {
      const headers = { authorization: `Bearer ${keys[0]}`, 'content-type': 'application/json' };
      const init = {
        method,
        headers: body === undefined ? { authorization: headers.authorization } : headers,
      };
      const answer = await fetch(`${house.url}/v1/responses${path}`, {
        ...init,
        ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      });
      return answer.json();
    };
    const ask = async (body: object) =>
      responseSchema.parse(await call('', { model, temperature: 0, ...body }));
    const first = await ask({
      input: 'What is the weather in Oslo?',
      tools: [weather],
      max_output_tokens: 50,
    });
    const [item] = first.output;
    if (item?.type !== 'function_call') throw new Error('expected a call');
    const { call_id } = item;
    const result = { type: 'function_call_output', call_id, output: 'rain' };
    const next = await ask({ previous_response_id: first.id, input: [result], max_output_tokens: 2 });
    expect(next.status).toBe('incomplete');
    expect(responseSchema.parse(await call(`/${next.id}`))).toEqual(next);
    const items = inputItemsSchema.parse(await call(`/${next.id}/input_items`));
    expect(items.data.map(({ type }) => type)).toEqual(['function_call_output', 'function_call', 'message']);
    deletedSchema.parse(await call(`/${next.id}`, undefined, 'DELETE'));
  });

  it('says what a chat says to the same', async () => {
    const chat = await client.chat.completions.create({
      model,
      temperature: 0,
      messages: [
        { role: 'system', content: 'Be brief.' },
        { role: 'user', content: 'Hello' },
        { role: 'assistant', content: 'Hi.' },
        { role: 'user', content: input },
      ],
    });
    const response = await client.responses.create({
      model,
      temperature: 0,
      instructions: 'Be brief.',
      input: [
        { role: 'user', content: 'Hello' },
        { type: 'message', role: 'assistant', content: 'Hi.' },
        { type: 'message', role: 'user', content: [{ type: 'input_text', text: input }] },
      ],
    });
    expect(response.output_text).toBe(chat.choices[0]?.message.content);
    expect(response.usage?.input_tokens).toBe(chat.usage?.prompt_tokens);
  });

  it('is streamed as events in their order, with the same words', async () => {
    const body = { model, input, temperature: 0 };
    const whole = await client.responses.create(body);
    const events = await gather(await client.responses.create({ ...body, stream: true }));
    expect(events.map(({ sequence_number }) => sequence_number)).toEqual(events.map((_, at) => at));
    const types = events.map(({ type }) => type);
    expect(types.filter((type, at) => type !== types[at - 1])).toEqual([
      'response.created',
      'response.in_progress',
      'response.output_item.added',
      'response.content_part.added',
      'response.output_text.delta',
      'response.output_text.done',
      'response.content_part.done',
      'response.output_item.done',
      'response.completed',
    ]);
    const text = events
      .map((event) => (event.type === 'response.output_text.delta' ? event.delta : ''))
      .join('');
    expect(text).toBe(whole.output_text);
    const first = events[0];
    if (first?.type !== 'response.created') throw new Error('expected response.created');
    expect(first.response).toMatchObject({ status: 'in_progress', output: [], usage: null });
    const last = events.at(-1);
    if (last?.type !== 'response.completed') throw new Error('expected response.completed');
    expect(comparable({ ...last.response, output_text: whole.output_text })).toEqual(comparable(whole));
  });

  it('is gathered by the stream helper', async () => {
    const stream = client.responses.stream({ model, input, temperature: 0 });
    const deltas: string[] = [];
    stream.on('response.output_text.delta', ({ delta }) => deltas.push(delta));
    const final = await stream.finalResponse();
    expect(final.output_text).toContain('demo model');
    expect(deltas.join('')).toBe(final.output_text);
    expect(final.status).toBe('completed');
  });

  it('is incomplete where its tokens run out, whole and streamed', async () => {
    const body = { model, input: story, max_output_tokens: 5, ...endless };
    const whole = await client.responses.create(body);
    expect(whole).toMatchObject({
      status: 'incomplete',
      incomplete_details: { reason: 'max_output_tokens' },
      output: [{ status: 'incomplete' }],
      usage: { output_tokens: 5 },
    });
    const events = await gather(await client.responses.create({ ...body, stream: true }));
    expect(events.at(-1)).toMatchObject({ type: 'response.incomplete', response: { status: 'incomplete' } });
  });

  it('has log-probabilities of its text where they are asked for', async () => {
    const body = {
      model,
      input,
      temperature: 0,
      top_logprobs: 2,
      include: ['message.output_text.logprobs' as const],
    };
    const whole = await client.responses.create(body);
    const [item] = whole.output;
    const part = item?.type === 'message' ? item.content[0] : undefined;
    const logprobs = part?.type === 'output_text' ? part.logprobs : undefined;
    expect(logprobs?.map(({ token }) => token).join('')).toBe(whole.output_text);
    expect(logprobs?.every(({ top_logprobs: top }) => top.length === 2)).toBe(true);
    const events = await gather(await client.responses.create({ ...body, stream: true }));
    const streamed = events.flatMap((event) =>
      event.type === 'response.output_text.delta' ? event.logprobs : [],
    );
    expect(streamed).toEqual(logprobs);
  });

  it('is parsed to what a schema says', async () => {
    const schema = z.object({ name: z.string(), age: z.number() });
    const body = {
      model,
      temperature: 0,
      input: 'Extract the name and the age: Anna is 31 years old.',
      text: { format: zodTextFormat(schema, 'person') },
    };
    const response = await client.responses.parse(body);
    expect(schema.parse(response.output_parsed)).toEqual(response.output_parsed);
    const streamed = await client.responses.stream(body).finalResponse();
    expect(streamed.output_parsed).toEqual(response.output_parsed);
    const object = await client.responses.create({ ...body, text: { format: { type: 'json_object' } } });
    expect(typeof JSON.parse(object.output_text)).toBe('object');
  });
});

describe('functions', () => {
  const question = { model, temperature: 0, input: 'What is the weather in Oslo?', tools: [weather] };

  it('are called, and their results answered, from response to response', async () => {
    const first = await client.responses.create(question);
    const [call] = first.output;
    expect(first.output).toHaveLength(1);
    if (call?.type !== 'function_call') throw new Error('expected a call');
    expect(call).toMatchObject({
      id: expect.stringMatching(/^fc_/),
      name: 'get_weather',
      status: 'completed',
    });
    expect(JSON.parse(call.arguments)).toEqual({ city: 'Oslo' });
    const result = {
      type: 'function_call_output' as const,
      call_id: call.call_id,
      output: '{"temperature": 7, "sky": "rain"}',
    };
    const second = await client.responses.create({
      ...question,
      previous_response_id: first.id,
      input: [result],
    });
    expect(second.previous_response_id).toBe(first.id);
    expect(second.output_text).not.toBe('');
    const stateless = await client.responses.create({
      ...question,
      input: [{ role: 'user', content: question.input }, call, result],
      store: false,
    });
    expect(stateless.output_text).toBe(second.output_text);
    expect(stateless.usage?.input_tokens).toBe(second.usage?.input_tokens);
  });

  it('are called in a stream, piece by piece', async () => {
    const whole = await client.responses.create(question);
    const events = await gather(await client.responses.create({ ...question, stream: true }));
    const types = events.map(({ type }) => type);
    expect(types.filter((type, at) => type !== types[at - 1])).toEqual([
      'response.created',
      'response.in_progress',
      'response.output_item.added',
      'response.function_call_arguments.delta',
      'response.function_call_arguments.done',
      'response.output_item.done',
      'response.completed',
    ]);
    const pieces = events.map((event) =>
      event.type === 'response.function_call_arguments.delta' ? event.delta : '',
    );
    const [call] = whole.output;
    expect(pieces.join('')).toBe(call?.type === 'function_call' ? call.arguments : undefined);
  });

  it('are parsed by the helper, required, named, allowed and forbidden', async () => {
    const tool = zodResponsesFunction({ name: 'get_weather', parameters: z.object({ city: z.string() }) });
    const parsed = await client.responses.parse({ ...question, tools: [tool], tool_choice: 'required' });
    expect(parsed.output[0]).toMatchObject({ parsed_arguments: { city: expect.any(String) } });
    for (const choice of [
      { type: 'function' as const, name: 'get_weather' },
      {
        type: 'allowed_tools' as const,
        mode: 'required' as const,
        tools: [{ type: 'function', name: 'get_weather' }],
      },
    ]) {
      const response = await client.responses.create({ ...question, input, tool_choice: choice });
      expect(response.output).toMatchObject([{ type: 'function_call', name: 'get_weather' }]);
      expect(response.tool_choice).toEqual(choice);
    }
    const none = await client.responses.create({ ...question, tool_choice: 'none' });
    expect(none.output.map(({ type }) => type)).toEqual(['message']);
  });
});

describe('a stored response', () => {
  it('is found again, with what was given for it, until it is deleted', async () => {
    const made = await client.responses.create({ model, input, instructions: 'Be kind.', temperature: 0 });
    expect(await client.responses.retrieve(made.id)).toEqual(made);
    const { data } = await client.responses.inputItems.list(made.id);
    const content = [{ type: 'input_text', text: input }];
    const id = expect.stringMatching(/^msg_/);
    expect(data).toEqual([{ id, type: 'message', role: 'user', content, status: 'completed' }]);
    await client.responses.delete(made.id);
    await expect(client.responses.retrieve(made.id)).rejects.toBeInstanceOf(NotFoundError);
    await expect(client.responses.delete(made.id)).rejects.toBeInstanceOf(NotFoundError);
    const next = client.responses.create({ model, input, previous_response_id: made.id });
    await expect(next).rejects.toBeInstanceOf(BadRequestError);
    await expect(next).rejects.toMatchObject({
      code: 'previous_response_not_found',
      param: 'previous_response_id',
    });
  });

  it('is gone on with, also when it was streamed; its instructions are not', async () => {
    const first = await client.responses
      .stream({ model, input: 'My name is Anna.', instructions: 'Speak like a pirate.', temperature: 0 })
      .finalResponse();
    const second = await client.responses.create({
      model,
      input: 'Who are you?',
      previous_response_id: first.id,
      temperature: 0,
    });
    const chat = await client.chat.completions.create({
      model,
      temperature: 0,
      messages: [
        { role: 'user', content: 'My name is Anna.' },
        { role: 'assistant', content: first.output_text },
        { role: 'user', content: 'Who are you?' },
      ],
    });
    expect(second.usage?.input_tokens).toBe(chat.usage?.prompt_tokens);
    expect(second.output_text).toBe(chat.choices[0]?.message.content);
    const texts: unknown[] = [];
    for await (const item of client.responses.inputItems.list(second.id, { order: 'asc', limit: 1 })) {
      texts.push('content' in item && Array.isArray(item.content) ? item.content[0] : undefined);
    }
    expect(texts).toMatchObject([
      { text: 'My name is Anna.' },
      { text: first.output_text },
      { text: 'Who are you?' },
    ]);
  });

  it('lends its items to others by reference', async () => {
    const first = await client.responses.create({ model, input: 'My name is Anna.', temperature: 0 });
    const id = first.output[0]?.id as string;
    const ask = (items: OpenAI.Responses.ResponseInput, by = client) =>
      by.responses.create({
        model,
        temperature: 0,
        input: [
          { role: 'user', content: 'My name is Anna.' },
          ...items,
          { role: 'user', content: 'Who are you?' },
        ],
      });
    const referring = await ask([{ type: 'item_reference', id }]);
    const spelled = await ask([{ role: 'assistant', content: first.output_text }]);
    expect(referring.output_text).toBe(spelled.output_text);
    expect(referring.usage?.input_tokens).toBe(spelled.usage?.input_tokens);
    const lost = ask([{ type: 'item_reference', id }], otherAccount);
    await expect(lost).rejects.toMatchObject({ status: 404, code: 'item_not_found' });
  });

  it('is not there for another key', async () => {
    const { id } = await client.responses.create({ model, input, temperature: 0 });
    await expect(otherAccount.responses.retrieve(id)).rejects.toBeInstanceOf(NotFoundError);
    await expect(otherAccount.responses.delete(id)).rejects.toBeInstanceOf(NotFoundError);
    await expect(otherAccount.responses.cancel(id)).rejects.toBeInstanceOf(NotFoundError);
    await expect(otherAccount.responses.inputItems.list(id)).rejects.toBeInstanceOf(NotFoundError);
    const next = otherAccount.responses.create({ model, input, previous_response_id: id });
    await expect(next).rejects.toMatchObject({ code: 'previous_response_not_found' });
    expect((await client.responses.retrieve(id)).id).toBe(id);
  });

  it('is none where storing is not wanted', async () => {
    const { id, ...response } = await client.responses.create({ model, input, store: false });
    expect(response).toMatchObject({ store: false });
    await expect(client.responses.retrieve(id)).rejects.toBeInstanceOf(NotFoundError);
  });

  it('survives a restart', async () => {
    const made = await client.responses.create({ model, input, temperature: 0 });
    await house.close();
    await open();
    expect(await client.responses.retrieve(made.id)).toEqual(made);
    const next = await client.responses.create({ model, input: 'Again?', previous_response_id: made.id });
    expect(next.status).toBe('completed');
  });
});

describe('a response that does not come to its end', () => {
  const long = { model, input: story, stream: true as const, max_output_tokens: 3000, ...endless };

  it('can be looked at and called off while it is streamed, by its own key', async () => {
    const before = (await house.server.pool.engine.stats()).requests.cancelled;
    const stream = await client.responses.create(long);
    const events: ResponseStreamEvent[] = [];
    let cancelled: Response | undefined;
    for await (const event of stream) {
      events.push(event);
      if (event.type !== 'response.output_text.delta' || cancelled !== undefined) continue;
      const id = (events[0] as { response: Response }).response.id;
      expect(await client.responses.retrieve(id)).toMatchObject({ id, status: 'in_progress' });
      await expect(otherAccount.responses.cancel(id)).rejects.toBeInstanceOf(NotFoundError);
      await expect(client.responses.delete(id)).rejects.toMatchObject({ status: 409 });
      cancelled = await client.responses.cancel(id);
    }
    expect(cancelled).toMatchObject({ status: 'cancelled', output: [{ status: 'incomplete' }] });
    expect(events.at(-1)).toMatchObject({ type: 'response.incomplete', response: { status: 'cancelled' } });
    const id = cancelled?.id as string;
    expect(await client.responses.retrieve(id)).toMatchObject({ status: 'cancelled' });
    await expect(client.responses.cancel(id)).rejects.toMatchObject({ status: 400, code: 'not_running' });
    await eventually(async () =>
      expect((await house.server.pool.engine.stats()).requests.cancelled).toBe(before + 1),
    );
  });

  it('fails in the stream, and is kept as failed', async () => {
    const stream = await client.responses.create(long, { headers: { 'x-chairlift-timeout-ms': '400' } });
    const events = await gather(stream);
    expect(events.at(-2)).toMatchObject({ type: 'error', code: 'deadline_exceeded' });
    const last = events.at(-1);
    if (last?.type !== 'response.failed') throw new Error('expected response.failed');
    expect(last.response).toMatchObject({ status: 'failed', error: { code: 'server_error' } });
    expect(await client.responses.retrieve(last.response.id)).toMatchObject({ status: 'failed' });
  });

  it('ends with its client, and is kept as cancelled', async () => {
    const before = (await house.server.pool.engine.stats()).requests.cancelled;
    const stream = await client.responses.create(long);
    let id = '';
    for await (const event of stream) {
      if (event.type === 'response.created') id = event.response.id;
      if (event.type === 'response.output_text.delta') break;
    }
    await eventually(async () => {
      expect((await house.server.pool.engine.stats()).requests.cancelled).toBe(before + 1);
      expect((await client.responses.retrieve(id)).status).toBe('cancelled');
    });
  });
});

describe('the tokens of an input', () => {
  it('are counted as the response counts them, with tools and with what came before', async () => {
    const first = await client.responses.create({ model, input, temperature: 0 });
    const asked = { model, input: 'And what is 3 + 4?', tools: [weather], previous_response_id: first.id };
    const { input_tokens: counted, object } = await client.responses.inputTokens.count(asked);
    const { usage } = await client.responses.create({ ...asked, max_output_tokens: 1 });
    expect(object).toBe('response.input_tokens');
    expect(counted).toBe(usage?.input_tokens);
  });
});

describe('what is refused', () => {
  const refused = (body: object) => client.responses.create({ model, input, ...body });

  it.each([
    [{ background: true }, 'background'],
    [{ truncation: 'some' }, 'truncation'],
    [{ conversation: 'conv_1' }, 'conversation'],
    [{ messages: [] }, 'messages'],
    [{ max_tokens: 5 }, 'max_tokens'],
    [{ temperature: -1 }, 'temperature'],
    [{ max_output_tokens: 0 }, 'max_output_tokens'],
    [{ text: { verbosity: 'low' } }, 'text.verbosity'],
    [{ text: { format: { type: 'grammar' } } }, 'text.format.type'],
    [{ reasoning: { summary: 'detailed' } }, 'reasoning.summary'],
    [{ tools: [{ type: 'crystal_ball' }] }, 'tools[0].type'],
    [{ tool_choice: { type: 'web_search' } }, 'tool_choice'],
    [{ tools: [weather], tool_choice: { type: 'function', name: 'other' } }, 'tool_choice'],
    [
      { input: [{ role: 'user', content: [{ type: 'input_image', image_url: 'x' }] }] },
      'input[0].content[0]',
    ],
    [{ input: [{ type: 'web_search_call' }] }, 'input[0].type'],
    [{ input: [{ type: 'function_call_output', call_id: 'x', output: 'y' }] }, 'input'],
    [{ input: [{ role: 'user' }] }, 'input[0].content'],
    [{ input: [] }, 'input'],
    [{ include: ['everything'] }, 'include[0]'],
  ])('%j, by its name', async (body, param) => {
    const asked = refused(body);
    await expect(asked).rejects.toBeInstanceOf(BadRequestError);
    await expect(asked).rejects.toMatchObject({ param, type: 'invalid_request_error' });
  });

  it('a conversation that is too long for the model, or has too many items', async () => {
    const long = refused({ input: 'word '.repeat(10_000) });
    await expect(long).rejects.toMatchObject({
      status: 400,
      code: 'context_length_exceeded',
      param: 'input',
    });
    const many = refused({ input: Array(2049).fill({ role: 'user', content: 'a' }) });
    await expect(many).rejects.toMatchObject({ status: 400, param: 'input' });
  });

  it('names the type of a tool that there is none of', async () => {
    await expect(refused({ tools: [{ type: 'crystal_ball' }] })).rejects.toThrow(/crystal_ball/);
  });

  it('a wrong key, and an unknown model', async () => {
    await expect(clientOf('wrong').responses.create({ model, input })).rejects.toBeInstanceOf(
      AuthenticationError,
    );
    await expect(refused({ model: 'nope' })).rejects.toMatchObject({ status: 404, code: 'model_not_found' });
  });

  it('to go on from anything, where nothing is kept', async () => {
    const bare = await testServer();
    try {
      const here = clientOf('any', `${await bare.listen()}/v1`);
      const response = await here.responses.create({ model, input });
      expect(response).toMatchObject({ status: 'completed', store: false });
      await expect(here.responses.retrieve(response.id)).rejects.toBeInstanceOf(NotFoundError);
      const next = here.responses.create({ model, input, previous_response_id: response.id });
      await expect(next).rejects.toMatchObject({ code: 'not_stored', param: 'previous_response_id' });
    } finally {
      await bare.close();
    }
  });
});
