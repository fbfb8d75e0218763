// What a key's limits of tokens leave is all that its answers get, in every protocol: the whole server, the embedded model.

import { describe, expect, it } from 'vitest';
import { inputLine, startBatchServer } from '../../../test/support/batch-server.ts';
import { messages, startWithKeys } from '../../../test/support/keyed-server.ts';

const DAILY = 100;
const endless = { ignore_eos: true, temperature: 0 };

/** Where nothing else keeps an answer from its end. */
const numbers = { type: 'array', items: { type: 'integer' }, minItems: 500 };

/** What would never end by itself, and how each protocol says that it was cut. */
const protocols: readonly (readonly [url: string, body: object, cut: RegExp])[] = [
  ['/v1/chat/completions', { messages, ...endless }, /"finish_reason":"length"/],
  ['/v1/chat/completions', { messages, ...endless, max_tokens: 2000 }, /"finish_reason":"length"/],
  ['/v1/completions', { prompt: 'Once', ...endless, max_tokens: 2000, n: 3 }, /"finish_reason":"length"/],
  ['/v1/completions', { prompt: ['Once', 'In'], ...endless, max_tokens: 90 }, /"finish_reason":"length"/],
  ['/v1/messages', { messages, ...endless, max_tokens: 2000 }, /"stop_reason":"max_tokens"/],
  ['/v1/responses', { input: 'Hello', ...endless, max_output_tokens: 2000 }, /"status":"incomplete"/],
  ['/v1/responses', { input: 'Hello', ...endless }, /"status":"incomplete"/],
  [
    '/api/chat',
    { model: 'demo', messages, format: numbers, options: { num_predict: -1 } },
    /"done_reason":"length"/,
  ],
];

describe('a day that has less left than an answer would take', () => {
  it.each([true, false])('ends it there and says so in every protocol, streamed: %j', async (stream) => {
    const keys = Object.fromEntries(
      protocols.map((_, at) => [`key ${at}`, { limits: { dailyTokens: DAILY } }]),
    );
    const { call, secrets, usage, keyStore } = await startWithKeys(keys);
    const ids = new Map((await keyStore.list()).map(({ name, id }) => [name, id]));
    for (const [at, [url, body, cut]] of protocols.entries()) {
      const name = `key ${at}`;
      const ask = () => call(secrets[name], url, { ...body, stream });
      const { statusCode, headers, body: text } = await ask();
      expect(statusCode, text).toBe(200);
      expect(text).toMatch(cut);
      const row = (await usage.report({})).find(({ keyId }) => keyId === ids.get(name));
      const { promptTokens = 0, completionTokens = 0 } = row ?? {};
      const used = promptTokens + completionTokens;
      expect(used).toBeLessThanOrEqual(DAILY);
      // Where several share what is left, alike, some may stay.
      expect(used).toBeGreaterThan(DAILY - 3);
      expect(headers['x-ratelimit-capped-tokens'], url).toBe(String(completionTokens));
      const refused = await ask();
      expect(refused.statusCode).toBe(429);
      expect(refused.body).toContain(`of ${DAILY} tokens ${used} are used, ${DAILY - used} left`);
    }
  });

  it('cuts no answer of a batch that has a limit of its own: what can never fit fails, and says so', async () => {
    const server = await startBatchServer({ mine: { limits: { dailyTokens: DAILY } } });
    const { id } = await server.submit('mine', [
      inputLine('one', { messages, ...endless, max_tokens: 2000 }),
      inputLine('two', { messages, ...endless, max_tokens: 5 }),
    ]);
    await server.ended('mine', id);
    const [row] = await server.usage.report({});
    expect(row?.completionTokens).toBe(5);
  });

  it('ends the answers of batches there that have none', async () => {
    const server = await startBatchServer({ mine: { limits: { dailyTokens: DAILY } } });
    const { id } = await server.submit('mine', [inputLine('one', { messages, ...endless })]);
    await server.ended('mine', id);
    const [row] = await server.usage.report({});
    expect((row?.promptTokens ?? 0) + (row?.completionTokens ?? 0)).toBe(DAILY);
  });

  it('says nothing of it where an answer has room', async () => {
    const { call, secrets } = await startWithKeys({ mine: { limits: { dailyTokens: 100_000 } } });
    const { headers } = await call(secrets.mine, '/v1/chat/completions', { messages, max_tokens: 3 });
    expect(headers).not.toHaveProperty('x-ratelimit-capped-tokens');
  });
});

describe('a minute', () => {
  it('has no more than its limit for an answer, however long that may be', async () => {
    const { call, secrets } = await startWithKeys({ mine: { limits: { tokensPerMinute: 300 } } });
    const startedMs = Date.now();
    const answer = await call(secrets.mine, '/v1/chat/completions', { messages, ...endless });
    const drained = (300 * (Date.now() - startedMs)) / 60_000;
    expect(answer.json().choices[0].finish_reason).toBe('length');
    const { completion_tokens, total_tokens } = answer.json().usage;
    expect(total_tokens).toBeGreaterThanOrEqual(300);
    expect(total_tokens).toBeLessThanOrEqual(300 + drained);
    expect(answer.headers['x-ratelimit-capped-tokens']).toBe(String(completion_tokens));
  });

  it('never serves a prompt that is longer than its limit, and says so at once', async () => {
    const { call, secrets } = await startWithKeys({ mine: { limits: { tokensPerMinute: 300 } } });
    const prompt = 'A fox. '.repeat(200);
    for (const [url, body] of [
      ['/v1/completions', { prompt, max_tokens: 1 }],
      ['/v1/embeddings', { input: prompt }],
    ] as const) {
      const refused = await call(secrets.mine, url, body);
      expect(refused.statusCode).toBe(400);
      expect(refused.json().error).toMatchObject({ code: 'exceeds_key_limit' });
      expect(refused.json().error.message).toContain('300 tokens per minute');
      expect(refused.headers).not.toHaveProperty('retry-after');
    }
  });
});
