// Responses in the background, asked for with OpenAI's own library: the real server is killed and told to stop in the middle
// of answers, and started again with the same database.

import { createServer } from 'node:net';
import OpenAI, { APIError, BadRequestError, NotFoundError } from 'openai';
import type {
  Response,
  ResponseCreateParamsNonStreaming,
  ResponseStreamEvent,
} from 'openai/resources/responses/responses';
import { afterEach, describe, expect, it } from 'vitest';
import { responseSchema } from '../../src/server/responses/answers.ts';
import { openDatabase } from '../../src/store/open-database.ts';
import { reportUsage } from '../../src/store/usage-report.ts';
import { type ServerProcess, serverHome, waitUntil } from '../support/server-process.ts';

const home = serverHome();
const model = 'default';
const story = 'Tell me a story about a fox named Milo in the forest.';
const endless = { ignore_eos: true } as object;
const schema = {
  type: 'object',
  properties: { name: { type: 'string' }, likes: { type: 'array', items: { type: 'string' } } },
  required: ['name', 'likes'],
  additionalProperties: false,
};
const tool = {
  type: 'function' as const,
  name: 'get_weather',
  parameters: {
    type: 'object',
    properties: { city: { type: 'string' } },
    required: ['city'],
    additionalProperties: false,
  },
  strict: true,
};

let server: ServerProcess;

afterEach(() => server.stop());

function clientOf(apiKey: string): OpenAI {
  return new OpenAI({ baseURL: `${server.url}/v1`, apiKey, maxRetries: 0 });
}

function freePort(): Promise<number> {
  return new Promise((resolve) => {
    const probe = createServer().listen(0, '127.0.0.1', () => {
      const { port } = probe.address() as { port: number };
      probe.close(() => resolve(port));
    });
  });
}

async function restart(how: NodeJS.Signals, flags: readonly string[]): Promise<void> {
  server.signal(how);
  await server.exited;
  server = await home.start(...flags);
}

async function charged(name: string) {
  const list = JSON.parse(home.run('keys', 'list', '--json')) as { name: string; id: string }[];
  const database = await openDatabase(home.database);
  const rows = await reportUsage(database, {});
  await database.close();
  const { requests, promptTokens, completionTokens } =
    rows.find(({ keyId }) => keyId === list.find((key) => key.name === name)?.id) ?? {};
  return { requests, promptTokens, completionTokens };
}

function ended(client: OpenAI, { id }: Response): Promise<Response> {
  let last: Response | undefined;
  return waitUntil(async () => {
    last = await client.responses.retrieve(id);
    return last.status !== 'queued' && last.status !== 'in_progress';
  }).then(() => last as Response);
}

function lengthOf({ output }: Response): number {
  return JSON.stringify(output).length;
}

/** What differs between any two responses, or says that it was in the background. */
function comparable({ output, ...response }: Response): object {
  const { id: _, created_at: _c, completed_at: _d, background: _b, usage, ...rest } = response;
  const nameless = output.map((item) => ({ ...item, id: '', ...('call_id' in item ? { call_id: '' } : {}) }));
  return { ...rest, output: nameless, tokens: usage?.output_tokens, prompt: usage?.input_tokens };
}

function nameless(events: readonly ResponseStreamEvent[]): string[] {
  const aside = new Set(['id', 'item_id', 'call_id', 'created_at', 'completed_at', 'cached_tokens']);
  return events.map((event) =>
    JSON.stringify(event, (name, value: unknown) => (aside.has(name) ? undefined : value)),
  );
}

describe('after a restart', () => {
  it('answers go on by themselves and are what they would have been, over a kill and a stop, and are charged once', async () => {
    const [struck, calm] = ['struck', 'calm'].map((name) => home.createKey(name, 'normal')) as [
      string,
      string,
    ];
    const flags = ['--port', String(await freePort()), '--shutdown-limit', '0'];
    server = await home.start(...flags);
    const sampled = { model, temperature: 1, max_output_tokens: 500, ...endless };
    const asked: ResponseCreateParamsNonStreaming[] = [
      { ...sampled, input: story, seed: 1 } as object,
      { ...sampled, input: 'Once upon a time', seed: 2, include: ['message.output_text.logprobs'] } as object,
      { ...sampled, input: story, seed: 3, instructions: 'Be brief.' } as object,
      {
        model,
        temperature: 1,
        input: story,
        seed: 4,
        text: { format: { type: 'json_schema', name: 's', schema } },
      } as object,
    ];
    let client = clientOf(struck);
    const begun = await Promise.all(
      asked.map((body) => client.responses.create({ ...body, background: true })),
    );
    for (const response of begun) {
      expect(response).toMatchObject({ status: 'queued', background: true, output: [], error: null });
      responseSchema.parse(response);
    }
    for (const how of ['SIGKILL', 'SIGTERM'] as const) {
      const before = lengthOf(await client.responses.retrieve((begun[0] as Response).id));
      const grown = async () => {
        const now = await client.responses.retrieve((begun[0] as Response).id);
        expect(now.status, 'the answer was too short to be struck').not.toBe('completed');
        return lengthOf(now) > before + 150;
      };
      await waitUntil(grown);
      await restart(how, flags);
      client = clientOf(struck);
    }
    const came = await Promise.all(begun.map((response) => ended(client, response)));
    const undisturbed = await Promise.all(asked.map((body) => clientOf(calm).responses.create(body)));
    for (const [at, response] of came.entries()) {
      expect(comparable(response), `response ${at}`).toEqual(comparable(undisturbed[at] as Response));
      expect(response).toMatchObject({ id: begun[at]?.id, created_at: begun[at]?.created_at });
    }
    const next = {
      model,
      input: 'And then?',
      max_output_tokens: 5,
      previous_response_id: came[0]?.id as string,
    };
    expect((await clientOf(struck).responses.create(next)).previous_response_id).toBe(came[0]?.id);
    server.signal('SIGTERM');
    await server.exited;
    const [once, reference] = [await charged('struck'), await charged('calm')];
    expect(once.requests).toBe(asked.length + 1);
    expect(once.completionTokens).toBe((reference.completionTokens ?? 0) + 5);
  }, 300_000);

  it('a client that streams takes the rest from any event on', async () => {
    const key = home.createKey('streams', 'normal');
    const flags = ['--port', String(await freePort())];
    server = await home.start(...flags);
    const asked = { model, input: story, temperature: 1, seed: 5, max_output_tokens: 400, ...endless };
    const calls = { model, input: 'What is the weather in Oslo?', temperature: 0, tools: [tool] };
    for (const body of [asked, calls]) {
      const events: ResponseStreamEvent[] = [];
      const first = await clientOf(key).responses.create({ ...body, background: true, stream: true });
      const most = body === asked ? 40 : 6;
      for await (const event of first) if (events.push(event) === most) break;
      const { id } = (events[0] as { response: Response }).response;
      await restart('SIGKILL', flags);
      const rest = await waitForEvents(clientOf(key), id, events.length - 1);
      for await (const event of rest) events.push(event);
      expect(events.map(({ sequence_number: number }) => number)).toEqual(events.map((_, at) => at));
      expect(events.slice(0, 3).map(({ type }) => type)).toEqual([
        'response.created',
        'response.queued',
        'response.in_progress',
      ]);
      const whole = (events.at(-1) as { response: Response }).response;
      const mentioned = events.flatMap((event) => ('item_id' in event ? [event.item_id] : []));
      expect([...new Set(mentioned)]).toEqual(whole.output.map((item) => item.id));
      const added = events.flatMap((event) =>
        event.type === 'response.output_item.added' ? [event.item] : [],
      );
      const callIds = (items: readonly object[]) =>
        items.map((item) => ('call_id' in item ? item.call_id : ''));
      expect(callIds(added)).toEqual(callIds(whole.output));
      expect(await clientOf(key).responses.retrieve(id)).toMatchObject({
        output: whole.output,
        usage: whole.usage,
      });
      const again = await clientOf(key).responses.create({ ...body, background: true, stream: true });
      const undisturbed: ResponseStreamEvent[] = [];
      for await (const event of again) undisturbed.push(event);
      expect(nameless(events)).toEqual(nameless(undisturbed));
    }
  }, 300_000);
});

/** The next server may not have taken it up yet. */
async function waitForEvents(client: OpenAI, id: string, after: number) {
  for (;;) {
    try {
      return await client.responses.retrieve(id, { stream: true, starting_after: after });
    } catch (error) {
      if (!(error instanceof APIError) || error.code !== 'events_not_kept') throw error;
    }
  }
}

describe('while the server runs', () => {
  it('what cannot be is refused at once, and leaves nothing', async () => {
    const key = home.createKey('refused', 'normal');
    server = await home.start();
    const client = clientOf(key);
    const ask = (body: object) => client.responses.create({ model, input: story, background: true, ...body });
    await expect(ask({ store: false })).rejects.toThrow(BadRequestError);
    await expect(ask({ model: 'nobody' })).rejects.toThrow(NotFoundError);
    await expect(ask({ temperature: 'hot' })).rejects.toThrow(/temperature/);
    await expect(ask({ previous_response_id: 'resp_0' })).rejects.toThrow(/no stored response/);
    await expect(ask({ stream: 'yes' })).rejects.toThrow(/stream/);
    await expect(
      client.responses.create({ model, input: story, background: 'yes' as never }),
    ).rejects.toThrow(/background/);
    const database = await openDatabase(home.database);
    expect(await database.tables.selectFrom('background_response').selectAll().execute()).toEqual([]);
    await database.close();
  }, 60_000);

  it('a response is called off, also twice, and is seen by its own key alone', async () => {
    const [own, other] = ['own', 'other'].map((name) => home.createKey(name, 'normal')) as [string, string];
    server = await home.start();
    const client = clientOf(own);
    const { id } = await client.responses.create({ model, input: story, background: true, ...endless });
    await expect(clientOf(other).responses.retrieve(id)).rejects.toThrow(NotFoundError);
    await expect(clientOf(other).responses.cancel(id)).rejects.toThrow(NotFoundError);
    await expect(client.responses.delete(id)).rejects.toMatchObject({ status: 409, code: 'running' });
    await expect(client.responses.inputItems.list(id)).rejects.toMatchObject({
      status: 409,
      code: 'running',
    });
    await expect(client.responses.retrieve(id, { stream: true })).rejects.toThrow(/stream: true/);
    await waitUntil(async () => lengthOf(await client.responses.retrieve(id)) > 200);
    const cancelled = await client.responses.cancel(id);
    expect(cancelled).toMatchObject({ id, status: 'cancelled', background: true });
    expect(cancelled.output).toMatchObject([{ type: 'message', status: 'incomplete' }]);
    expect(await client.responses.cancel(id)).toMatchObject({
      status: 'cancelled',
      output: cancelled.output,
    });
    expect(await client.responses.retrieve(id)).toMatchObject({
      status: 'cancelled',
      output: cancelled.output,
    });
    expect((await client.responses.inputItems.list(id)).data).toHaveLength(1);
    await client.responses.delete(id);
    await expect(client.responses.retrieve(id)).rejects.toThrow(NotFoundError);
  }, 60_000);

  it('its events are streamed again after its end', async () => {
    const key = home.createKey('again', 'normal');
    server = await home.start();
    const client = clientOf(key);
    const body = { model, input: story, background: true, temperature: 0, max_output_tokens: 20 };
    const events: ResponseStreamEvent[] = [];
    for await (const event of await client.responses.create({ ...body, stream: true })) events.push(event);
    const { id } = (events[0] as { response: Response }).response;
    const again: ResponseStreamEvent[] = [];
    const rest = await client.responses.retrieve(id, { stream: true, starting_after: 4 });
    for await (const event of rest) again.push(event);
    expect(again).toEqual(events.slice(5));
    expect(events.at(-1)?.type).toBe('response.incomplete');
  }, 60_000);
});
