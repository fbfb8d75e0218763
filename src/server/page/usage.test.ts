import { describe, expect, it } from 'vitest';
import { messages, start, startWithKeys } from '../../../test/support/keyed-server.ts';
import type { RefusedRequest } from '../live/live-event.ts';
import { countedRefusals, type UsageReport } from './usage.ts';

const limits = { requestsPerMinute: 60, tokensPerMinute: 6000, dailyTokens: 1000, maxConcurrent: 4 };

async function startWithUsers() {
  const { server, secrets, call } = await startWithKeys({ boss: { admin: true }, ann: { limits }, bob: {} });
  const usageOf = async (key: string | undefined, query = '') =>
    (await call(key, `/usage${query}`)).json<UsageReport>();
  const ask = async (key: string) =>
    (await call(key, '/v1/chat/completions', { messages, max_tokens: 8 })).json().usage;
  return { server, secrets, call, usageOf, ask };
}

describe('/usage', () => {
  it('has what a key has used and what is left of its limits, and nothing of another key', async () => {
    const { secrets, usageOf, ask } = await startWithUsers();
    const { prompt_tokens, completion_tokens, total_tokens } = await ask(secrets.ann);
    await ask(secrets.bob);
    const own = await usageOf(secrets.ann);
    expect(own.key).toMatchObject({ name: 'ann', tier: 'normal', limits, revoked: false });
    expect(own.keys).toBeUndefined();
    expect(own.data).toEqual([
      expect.objectContaining({
        keyId: own.key?.id,
        requests: 1,
        promptTokens: prompt_tokens,
        completionTokens: completion_tokens,
      }),
    ]);
    const left = Object.fromEntries(own.limits.map(({ kind, remaining }) => [kind, remaining]));
    expect(left).toMatchObject({ daily: 1000 - total_tokens, concurrent: 4 });
    expect(left.requests).toBeGreaterThanOrEqual(59);
    expect(left.tokens).toBeGreaterThanOrEqual(6000 - total_tokens);
    expect((await usageOf(secrets.bob)).limits).toEqual([]);
  });

  it("of another key is found by admins alone, and by others as little as one that there isn't", async () => {
    const { secrets, call, usageOf, ask } = await startWithUsers();
    await ask(secrets.ann);
    await ask(secrets.bob);
    const all = await usageOf(secrets.boss);
    expect(all.key).toBeUndefined();
    // Those made in the same millisecond have no order.
    expect(all.keys?.map(({ name }) => name).toSorted()).toEqual(['ann', 'bob', 'boss', undefined]);
    expect(all.data).toHaveLength(2);
    const { id } = all.keys?.find(({ name }) => name === 'ann') ?? { id: '' };
    const one = await usageOf(secrets.boss, `?key=${id}`);
    expect(one).toMatchObject({ key: { name: 'ann' }, data: [{ keyId: id, requests: 1 }] });
    expect(one.limits).toHaveLength(4);
    for (const asked of [id, 'key_nobody']) {
      const refused = await call(secrets.bob, `/usage?key=${asked}`);
      expect(refused.statusCode).toBe(404);
      expect(refused.json().error).toMatchObject({ param: 'key', code: 'key_not_found' });
    }
    expect((await usageOf(secrets.ann, `?key=${id}`)).key?.id).toBe(id);
  });

  it('counts refusals by their reason, for the key that was refused', async () => {
    const { secrets, call, usageOf } = await startWithUsers();
    for (let times = 0; times < 2; times++) {
      await call(secrets.ann, '/v1/chat/completions', { model: 'gpt-9', messages });
    }
    await call(secrets.ann, '/v1/chat/completions', { messages, temperature: -1 });
    const { refusals } = await usageOf(secrets.ann);
    expect(refusals).toMatchObject([
      { status: 404, code: 'model_not_found', count: 2, reason: expect.stringContaining('gpt-9') },
      { status: 400, count: 1 },
    ]);
    expect((await usageOf(secrets.bob)).refusals).toEqual([]);
    expect((await usageOf(secrets.boss)).refusals).toEqual(refusals);
  });

  it('takes days, and names the field that is none', async () => {
    const { secrets, call, usageOf, ask } = await startWithUsers();
    await ask(secrets.ann);
    expect((await usageOf(secrets.ann, '?to=2020-01-01')).data).toEqual([]);
    const { statusCode, body } = await call(secrets.ann, '/usage?from=yesterday');
    expect(statusCode).toBe(400);
    expect(JSON.parse(body).error).toMatchObject({ param: 'from' });
  });

  it('needs a key where there are keys', async () => {
    const { call } = await startWithUsers();
    expect((await call(undefined, '/usage')).statusCode).toBe(401);
  });

  it('says so where a server keeps none', async () => {
    const { app } = await start();
    const { statusCode, body } = await app.inject({ url: '/usage' });
    expect(statusCode).toBe(501);
    expect(JSON.parse(body).error.code).toBe('no_usage_store');
  });
});

describe('refusals', () => {
  it('are counted with the last reason of each kind, the most frequent first', () => {
    const at = (atMs: number, status: number, code: string | undefined, reason: string) => ({
      shown: { atMs, status, code, reason } as RefusedRequest,
      keyId: 'a',
      address: '',
    });
    const newestFirst = [
      at(4, 429, 'queue_full', 'd'),
      at(3, 400, undefined, 'c'),
      at(2, 429, 'queue_full', 'b'),
    ];
    expect(countedRefusals(newestFirst)).toEqual([
      { status: 429, code: 'queue_full', count: 2, lastMs: 4, reason: 'd' },
      { status: 400, count: 1, lastMs: 3, reason: 'c' },
    ]);
  });
});
