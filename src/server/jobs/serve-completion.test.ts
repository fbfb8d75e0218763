// In which order a request is looked at, and what is left when its client has gone: through the whole server with the
// embedded model.

import { afterEach, describe, expect, it, vi } from 'vitest';
import { eventually } from '../../../test/support/eventually.ts';
import { messages, postJson, start } from '../../../test/support/keyed-server.ts';
import type { TestServer } from '../../../test/support/test-server.ts';
import { BLOCK_TOKENS } from '../../compute/backend.ts';
import type { KeyLimits, KeyRecord } from '../../store/key-record.ts';
import { EncodeWorkers } from '../../text/encode-workers.ts';
import type { Keys } from '../request/auth.ts';

afterEach(() => {
  vi.restoreAllMocks();
});

/** One key for all, with these limits. */
function limited(limits: KeyLimits): Keys {
  const record: KeyRecord = {
    id: 'mine',
    name: 'mine',
    prefix: 'mine',
    tier: 'normal',
    admin: false,
    limits,
    createdMs: 0,
  };
  return { status: async () => 'live', findByKey: async () => record, findById: async () => record };
}

async function post({ app }: TestServer, url: string, payload: object) {
  return app.inject({ method: 'POST', url, payload, headers: { authorization: 'Bearer mine' } });
}

const routes: readonly [string, object][] = [
  ['/v1/chat/completions', { messages, max_tokens: 1 }],
  ['/v1/completions', { prompt: 'Once', max_tokens: 1 }],
  ['/tokenize', { prompt: 'Once' }],
  ['/detokenize', { tokens: [5, 6] }],
];

describe('a key at its limit', () => {
  it.each(routes)('of requests a minute costs neither a model nor an encoding: %s', async (url, body) => {
    const loading = vi.fn(async () => {});
    const server = await start({ keys: limited({ requestsPerMinute: 1 }), pool: { loading } });
    const first = await post(server, url, body);
    expect(first.statusCode).toBe(200);
    expect(first.headers['x-ratelimit-remaining-requests']).toBe('0');
    const encode = vi.spyOn(EncodeWorkers.prototype, 'encode');
    const refused = await post(server, url, body);
    expect(refused.statusCode).toBe(429);
    expect(refused.json().error.code).toBe('rate_limit_exceeded');
    expect(Number(refused.headers['retry-after'])).toBeGreaterThan(0);
    expect(loading).toHaveBeenCalledTimes(1);
    expect(encode).not.toHaveBeenCalled();
  });

  it.each(routes)('of requests at once waits for no model: %s', async (url, body) => {
    let open = () => {};
    const gate = new Promise<void>((resolve) => {
      open = resolve;
    });
    const loading = vi.fn(() => gate);
    const server = await start({ keys: limited({ maxConcurrent: 1 }), pool: { loading } });
    const running = post(server, url, body);
    await eventually(() => expect(loading).toHaveBeenCalledTimes(1));
    const refused = await post(server, url, body);
    expect(refused.statusCode).toBe(429);
    expect(refused.json().error.message).toContain('requests at once');
    open();
    expect((await running).statusCode).toBe(200);
    expect((await post(server, url, body)).statusCode).toBe(200);
  });

  it('is charged for a refused prompt as a request, not as tokens', async () => {
    const server = await start({ keys: limited({ dailyTokens: 5000, maxConcurrent: 1 }) });
    const tooLong = { prompt: Array(5000).fill(5), max_tokens: 1 };
    expect((await post(server, '/v1/completions', tooLong)).statusCode).toBe(400);
    const next = await post(server, '/v1/completions', { prompt: 'Once', max_tokens: 1 });
    expect(next.statusCode).toBe(200);
    expect(Number(next.headers['x-ratelimit-remaining-daily-tokens'])).toBeGreaterThan(4900);
  });
});

describe('log-probabilities of prompts', () => {
  it('that would not fit into one answer are refused by the field that asks for them, before tokens are reserved', async () => {
    const server = await start({ keys: limited({ dailyTokens: 5000 }) });
    const prompt = Array(100).fill(Array(700).fill(5));
    for (const [body, param] of [
      [{ prompt, prompt_logprobs: 20, n: 2 }, 'prompt_logprobs'],
      [{ prompt, logprobs: 20, echo: true, n: 2 }, 'logprobs'],
    ] as const) {
      const refused = await post(server, '/v1/completions', { ...body, max_tokens: 0 });
      expect(refused.statusCode).toBe(400);
      expect(refused.json().error).toMatchObject({ param, code: 'invalid_value' });
    }
    const next = await post(server, '/v1/completions', { prompt: 'Once', max_tokens: 1 });
    expect(Number(next.headers['x-ratelimit-remaining-daily-tokens'])).toBeGreaterThan(4900);
  });
});

describe('a prompt', () => {
  it('that cannot fit however well it encodes is refused without encoding it', async () => {
    const server = await start();
    const { longestToken } = server.pool.model.tokenizer;
    const encode = vi.spyOn(EncodeWorkers.prototype, 'encode');
    const text = 'x'.repeat(longestToken * server.pool.model.spec.contextLength);
    for (const [url, body, param] of [
      ['/v1/completions', { prompt: text }, 'prompt'],
      ['/v1/completions', { prompt: ['short', text] }, 'prompt'],
      ['/v1/chat/completions', { messages: [{ role: 'user', content: text }] }, 'messages'],
    ] as const) {
      const { statusCode, json } = await post(server, url, body).then((response) => ({
        statusCode: response.statusCode,
        json: response.json(),
      }));
      expect(statusCode).toBe(400);
      expect(json.error).toMatchObject({ param, code: 'context_length_exceeded' });
    }
    expect(encode.mock.calls.map(([, given]) => given)).toEqual(['short']);
    // How many tokens it has may be asked all the same.
    expect((await post(server, '/tokenize', { prompt: text })).json().count).toBeGreaterThan(4096);
  });

  it('is encoded for its account, and no longer than its client waits', async () => {
    const server = await start({ keys: limited({}) });
    let signal: AbortSignal | undefined;
    vi.spyOn(EncodeWorkers.prototype, 'encode').mockImplementation(
      async (_model, _text, _options, caller) => {
        expect(caller?.account).toBe('mine');
        signal = caller?.signal;
        return new Promise((_, reject) => {
          signal?.addEventListener('abort', () => reject(signal?.reason));
        });
      },
    );
    const leave = await asked(server, { messages });
    await eventually(() => expect(signal).toBeDefined());
    leave();
    await eventually(() => expect(signal?.aborted).toBe(true));
    await eventually(() => expect(server.pool.leases).toBe(0));
  });
});

describe('/detokenize', () => {
  it('works off the event loop for long lists, with the same text', async () => {
    const server = await start();
    const { tokenizer } = server.pool.model;
    const tokens = Array.from({ length: 50_000 }, (_, at) => 300 + (at % 3000));
    const expected = tokenizer.decode(tokens, { special: true });
    const inline = vi.spyOn(tokenizer, 'decode');
    const response = await post(server, '/detokenize', { tokens });
    expect(response.json().prompt).toBe(expected);
    expect(inline).not.toHaveBeenCalled();
  });
});

describe('a model that serves without batching', () => {
  it('says so in a header, whole and streamed; others say nothing', async () => {
    const direct = await start({ pool: { direct: true } });
    for (const stream of [false, true]) {
      const response = await post(direct, '/v1/chat/completions', { messages, max_tokens: 1, stream });
      expect(response.headers['x-chairlift-mode']).toBe('direct');
    }
    const batched = await start();
    const response = await post(batched, '/v1/chat/completions', { messages, max_tokens: 1 });
    expect(response.headers).not.toHaveProperty('x-chairlift-mode');
  });
});

describe('several answers whose client leaves', () => {
  const long = [{ role: 'user', content: 'Milo the fox went to the lake and swam. '.repeat(250) }];

  it.each([1, 4])('during the prompt are all forgotten, and draining ends: n = %i', async (n) => {
    const server = await start();
    const { engine } = server.pool;
    const computing = new Promise<void>((step) => engine.monitor.subscribe({ step: () => step() }));
    const leave = await asked(server, { messages: long, n, max_tokens: 1000, ignore_eos: true });
    await computing;
    leave();
    const isCancelled = async () => (await engine.stats()).requests.cancelled === n;
    await vi.waitUntil(isCancelled);
    await engine.drain();
    const { running, queues, blocks } = await engine.stats();
    expect(running).toEqual([]);
    expect(queues.every(({ waiting }) => waiting === 0)).toBe(true);
    expect(blocks.used).toBe(0);
    expect(server.pool.leases).toBe(0);
  });

  it('share the computation of their prompt', async () => {
    const server = await start();
    let computed = 0;
    server.pool.engine.monitor.subscribe({
      step: ({ tokens }) => {
        computed += tokens;
      },
    });
    const body = { messages: long, n: 4, max_tokens: 1 };
    const { choices, usage } = (await post(server, '/v1/chat/completions', body)).json();
    expect(choices).toHaveLength(4);
    expect(usage.completion_tokens).toBe(4);
    // Each further one computes what the prompt has beyond whole blocks, and no more than a block of it.
    expect(computed).toBeGreaterThanOrEqual(usage.prompt_tokens);
    expect(computed).toBeLessThanOrEqual(usage.prompt_tokens + 3 * BLOCK_TOKENS);
  });
});

/** Posts over a socket of its own; the returned function breaks the connection. */
async function asked(server: TestServer, body: object): Promise<() => void> {
  const url = await server.listen();
  const controller = new AbortController();
  const { signal } = controller;
  postJson(`${url}/v1/chat/completions`, body, { key: 'mine', signal }).catch(() => {});
  return () => controller.abort();
}
