// Charged is what was computed, whichever side leaves and whatever fails, and all records agree: usage, limits, metrics and the log.

import type { ServerResponse } from 'node:http';
import { describe, expect, it, vi } from 'vitest';
import { endless, postJson, startWithKeys } from '../../../test/support/keyed-server.ts';

const LIMIT = 100_000;
const long = 'Milo the fox went to the lake and swam. '.repeat(150);
const messages = [{ role: 'user', content: long }];

type Started = Awaited<ReturnType<typeof startCharged>>;

/** An engine that computes one request at a time; `busy` can keep the others waiting. */
async function startCharged() {
  const keys = { busy: {}, mine: { limits: { dailyTokens: LIMIT, tokensPerMinute: LIMIT } } };
  const started = await startWithKeys(keys, { pool: { maxBatchSize: 1 } });
  const responses: ServerResponse[] = [];
  started.server.app.addHook('onRequest', async (_request, { raw }) => {
    responses.push(raw);
  });
  const url = await started.server.listen();
  const post = (key: string, path: string, body: object) => {
    const controller = new AbortController();
    const answer = postJson(url + path, body, { key, signal: controller.signal });
    answer.catch(() => {});
    return { answer, leave: () => controller.abort() };
  };
  return { ...started, post, responses };
}

/** What each book says that `mine` has used, when its only request is over. */
async function charged({ server, usage, keyStore, call, secrets }: Started): Promise<number> {
  const id = (await keyStore.list()).find(({ name }) => name === 'mine')?.id;
  const logged = () => server.log.find(({ keyId }) => keyId === id);
  await vi.waitUntil(() => logged() !== undefined, { timeout: 60_000 });
  const tokensOf = ({ promptTokens, completionTokens }: Record<string, unknown>) =>
    Number(promptTokens) + Number(completionTokens);
  const row = (await usage.report({})).find(({ keyId }) => keyId === id);
  expect(row?.requests).toBe(1);
  const used = tokensOf(row as unknown as Record<string, unknown>);
  expect(tokensOf(logged() as Record<string, unknown>)).toBe(used);
  const { headers } = await call(secrets.mine, '/tokenize', { prompt: '' });
  expect(headers['x-ratelimit-remaining-daily-tokens']).toBe(String(LIMIT - used));
  return used;
}

const asked: readonly (readonly [path: string, body: object])[] = [
  ['/v1/chat/completions', { messages }],
  ['/v1/chat/completions', { messages, stream: true, n: 2 }],
  ['/v1/messages', { messages, max_tokens: 50, stream: true }],
  ['/v1/embeddings', { input: [long, 'Hello'] }],
];

describe('a client that leaves', () => {
  it.each(asked)('while it waits is charged nothing: %s %#', async (path, body) => {
    const started = await startCharged();
    const { server, secrets, post } = started;
    const other = post(secrets.busy, '/v1/chat/completions', { ...endless, stream: true });
    await other.answer;
    const { leave } = post(secrets.mine, path, body);
    const waits = async () => (await server.pool.engine.stats()).queues.some(({ waiting }) => waiting > 0);
    await vi.waitUntil(waits, { timeout: 60_000 });
    leave();
    expect(await charged(started)).toBe(0);
    other.leave();
  });

  it('during its prompt is charged what of it was computed', async () => {
    const started = await startCharged();
    const { server, secrets, post, responses } = started;
    let steps = 0;
    // As if its connection broke between two steps.
    server.pool.engine.monitor.subscribe({
      step: () => {
        if (++steps === 3) responses.at(-1)?.destroy();
      },
    });
    post(secrets.mine, '/v1/chat/completions', { messages });
    const used = await charged(started);
    const { count } = (await started.call(secrets.busy, '/tokenize', { messages })).json();
    expect(used).toBeGreaterThanOrEqual(2 * 256);
    expect(used).toBeLessThan(count);
  });
});

it('a request whose engine fails before its prompt is computed is charged nothing', async () => {
  const started = await startCharged();
  const { server, secrets, post } = started;
  await post(secrets.busy, '/v1/chat/completions', { ...endless, stream: true }).answer;
  const { answer } = post(secrets.mine, '/v1/chat/completions', { messages });
  const waits = async () => (await server.pool.engine.stats()).queues.some(({ waiting }) => waiting > 0);
  await vi.waitUntil(waits, { timeout: 60_000 });
  await server.pool.engine.close();
  expect((await answer).status).toBe(500);
  expect(await charged(started)).toBe(0);
});
