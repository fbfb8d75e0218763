// What keys get of a machine that others want, too, through the whole server with the embedded model.

import { describe, expect, it } from 'vitest';
import { messages, startWithKeys } from '../../../test/support/keyed-server.ts';

describe('a key beside a flood of another', () => {
  it('has its single request answered while the flood waits', async () => {
    const { call, secrets } = await startWithKeys({ flood: {}, single: {} }, { pool: { maxBatchSize: 2 } });
    let floodsDone = 0;
    const ask = (key: string, max_tokens: number) =>
      call(key, '/v1/chat/completions', { messages, max_tokens, ignore_eos: true, temperature: 1 });
    const flood = Array.from({ length: 16 }, () =>
      ask(secrets.flood, 40).then(({ statusCode }) => {
        floodsDone += 1;
        return statusCode;
      }),
    );
    while (floodsDone === 0) await new Promise((resolve) => setTimeout(resolve, 5));
    const before = floodsDone;
    expect((await ask(secrets.single, 4)).statusCode).toBe(200);
    // Its four tokens take a few steps, in which few of the flood's two at once can end; the last of 16 would come after 14.
    expect(floodsDone - before).toBeLessThanOrEqual(4);
    expect(new Set(await Promise.all(flood))).toEqual(new Set([200]));
  });
});

describe('kvShare', () => {
  it('refuses what could never fit into the part of a key, or of its tier, with the numbers', async () => {
    const { call, secrets } = await startWithKeys(
      { mine: { limits: { kvShare: 0.1 } }, low: { tier: 'low' }, free: {} },
      { settings: { kvShares: { low: 0.1 } }, pool: { blockCount: 100 } },
    );
    const ask = (key: string, max_tokens?: number) =>
      call(key, '/v1/chat/completions', { messages, max_tokens, stop: ' ' });
    for (const key of [secrets.mine, secrets.low]) {
      const refused = await ask(key, 1500);
      expect(refused.statusCode).toBe(400);
      expect(refused.json().error).toMatchObject({ code: 'context_length_exceeded', param: 'max_tokens' });
      expect(refused.json().error.message).toMatch(/need \d+ blocks of 32 tokens, but this key may hold \d+/);
      expect((await ask(key, 8)).statusCode).toBe(200);
      // Without a limit the answer may be as long as the part allows.
      expect((await ask(key)).statusCode).toBe(200);
    }
    expect((await ask(secrets.free, 1500)).statusCode).toBe(200);
  });

  it('is set and shown by the admin API', async () => {
    const { call, secrets } = await startWithKeys({ boss: { admin: true } });
    const made = await call(secrets.boss, '/admin/keys', { name: 'a', kv_share: 0.25 });
    expect([made.statusCode, made.json().kv_share]).toEqual([201, 0.25]);
    const listed = (await call(secrets.boss, '/admin/keys')).json().data;
    expect(listed.map(({ kv_share }: { kv_share: number | null }) => kv_share)).toEqual([null, 0.25]);
    const wrong = await call(secrets.boss, '/admin/keys', { name: 'b', kv_share: 2 });
    expect([wrong.statusCode, wrong.json().error.message]).toEqual([
      400,
      'kvShare is a number above 0 and up to 1, not 2; leave it out for no limit',
    ]);
  });
});
