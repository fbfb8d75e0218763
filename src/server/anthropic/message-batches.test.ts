// Batches of messages through the routes, run by the batch runner with the embedded model.

import { describe, expect, it } from 'vitest';
import { inputLine, startBatchServer } from '../../../test/support/batch-server.ts';
import {
  anthropicErrorSchema,
  messageAnswerSchema,
  messageBatchPageSchema,
  messageBatchSchema,
} from './answers.ts';

const URL_ = '/v1/messages/batches';
const messages = [{ role: 'user', content: 'Hello, who are you?' }];
const params = { max_tokens: 20, messages, temperature: 0 };
const ask = (custom_id: string, more: object = {}) => ({ custom_id, params: { ...params, ...more } });

type Server = Awaited<ReturnType<typeof startBatchServer<'mine' | 'other'>>>;

async function create(server: Server, requests: readonly object[]) {
  const made = await server.call('mine', 'POST', URL_, { requests });
  expect(made.statusCode, made.body).toBe(200);
  return messageBatchSchema.parse(made.json());
}

async function ended(server: Server, id: string) {
  const read = async () =>
    messageBatchSchema.parse((await server.call('mine', 'GET', `${URL_}/${id}`)).json());
  await expect.poll(async () => (await read()).processing_status, { timeout: 60_000 }).toBe('ended');
  return read();
}

async function results(server: Server, id: string) {
  const { body } = await server.call('mine', 'GET', `${URL_}/${id}/results`);
  const lines = body
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line));
  return new Map(lines.map(({ custom_id, result }) => [custom_id, result]));
}

describe('a batch of messages', () => {
  it('is answered as each message would be alone, with an error for each that cannot be', async () => {
    const server = await startBatchServer({ mine: {}, other: {} });
    const alone = messageAnswerSchema.parse(
      (await server.call('mine', 'POST', '/v1/messages', params)).json(),
    );
    const made = await create(server, [ask('a'), ask('b', { max_tokens: 0 }), ask('c', { stream: true })]);
    expect(made).toMatchObject({ processing_status: 'in_progress', results_url: null });
    expect(made.request_counts).toEqual({ processing: 3, succeeded: 0, errored: 0, canceled: 0, expired: 0 });
    const batch = await ended(server, made.id);
    expect(batch.request_counts).toMatchObject({ processing: 0, succeeded: 1, errored: 2 });
    expect(batch.results_url).toMatch(new RegExp(`^http://.*${URL_}/${made.id}/results$`));
    const found = await results(server, made.id);
    expect([...found.keys()].sort()).toEqual(['a', 'b', 'c']);
    expect(messageAnswerSchema.parse(found.get('a').message).content).toEqual(alone.content);
    for (const id of ['b', 'c']) {
      expect(found.get(id).type).toBe('errored');
      expect(anthropicErrorSchema.parse(found.get(id).error).error.type).toBe('invalid_request_error');
    }
  });

  it('is listed, newest first, to its key alone, and gone once deleted', async () => {
    const server = await startBatchServer({ mine: {}, other: {} });
    const ids: string[] = [];
    for (const name of ['a', 'b', 'c']) ids.unshift((await create(server, [ask(name)])).id);
    const page = async (query: string) =>
      messageBatchPageSchema.parse((await server.call('mine', 'GET', `${URL_}${query}`)).json());
    const idsOf = ({ data }: Awaited<ReturnType<typeof page>>) => data.map(({ id }) => id);
    expect(idsOf(await page(''))).toEqual(ids);
    expect(await page('?limit=2')).toMatchObject({ has_more: true, first_id: ids[0], last_id: ids[1] });
    expect(idsOf(await page(`?after_id=${ids[1]}`))).toEqual([ids[2]]);
    expect(idsOf(await page(`?before_id=${ids[2]}&limit=1`))).toEqual([ids[1]]);
    const [id] = ids as [string];
    for (const [method, path] of [
      ['GET', ''],
      ['GET', '/results'],
      ['POST', '/cancel'],
      ['DELETE', ''],
    ] as const) {
      expect((await server.call('other', method, `${URL_}/${id}${path}`)).statusCode).toBe(404);
    }
    await ended(server, id);
    const deleted = await server.call('mine', 'DELETE', `${URL_}/${id}`);
    expect(deleted.json()).toEqual({ id, type: 'message_batch_deleted' });
    expect((await server.call('mine', 'GET', `${URL_}/${id}`)).statusCode).toBe(404);
    for (const one of ids.slice(1)) await ended(server, one);
    expect((await server.call('mine', 'GET', '/v1/files')).json().data).toHaveLength(4);
  });

  it('leaves a file that its client uploaded when it is deleted', async () => {
    const server = await startBatchServer({ mine: {}, other: {} });
    const { id, input_file_id: input } = await server.submit(
      'mine',
      [inputLine('a', params, '/v1/messages')],
      '/v1/messages',
    );
    await ended(server, id);
    expect((await server.call('mine', 'DELETE', `${URL_}/${id}`)).statusCode).toBe(200);
    const { data } = (await server.call('mine', 'GET', '/v1/files')).json();
    expect(data).toMatchObject([{ id: input, purpose: 'batch' }]);
  });

  it('is cancelled, and says which requests were not run', async () => {
    const server = await startBatchServer({ mine: {}, other: {} }, { settings: { batchConcurrency: 1 } });
    const long = { max_tokens: 2000, ignore_eos: true };
    const made = await create(
      server,
      Array.from({ length: 5 }, (_, n) => ask(`r${n}`, long)),
    );
    const early = await server.call('mine', 'GET', `${URL_}/${made.id}/results`);
    expect(anthropicErrorSchema.parse(early.json()).error.type).toBe('not_found_error');
    expect((await server.call('mine', 'DELETE', `${URL_}/${made.id}`)).statusCode).toBe(400);
    const cancelled = await server.call('mine', 'POST', `${URL_}/${made.id}/cancel`);
    expect(cancelled.json().processing_status).toBe('canceling');
    const { request_counts: counts } = await ended(server, made.id);
    expect(counts.canceled).toBeGreaterThan(0);
    expect(counts.canceled + counts.succeeded).toBe(5);
    if (counts.canceled < 5) return;
    const found = [...(await results(server, made.id)).values()];
    expect(found).toEqual(Array(5).fill({ type: 'canceled' }));
  });

  it.each([
    ['no requests', { requests: [] }, 'requests'],
    ['an id twice', { requests: [ask('a'), ask('a')] }, 'requests\\[1\\]: custom_id'],
    ['an unknown model', { requests: [ask('a', { model: 'nope' })] }, "requests\\[0\\]: the model 'nope'"],
  ])('of %s is refused', async (_, body, message) => {
    const server = await startBatchServer({ mine: {} });
    const refused = await server.call('mine', 'POST', URL_, body);
    expect(refused.statusCode).toBe(400);
    expect(anthropicErrorSchema.parse(refused.json()).error.message).toMatch(new RegExp(message));
    expect((await server.call('mine', 'GET', '/v1/files')).json()).toMatchObject({ data: [] });
  });
});
