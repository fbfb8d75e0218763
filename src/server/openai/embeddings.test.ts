// Vectors through the whole server with the embedded model, without a socket.

import { describe, expect, it } from 'vitest';
import { sharedServer, start } from '../../../test/support/keyed-server.ts';
import { Limiter } from '../limits/limiter.ts';
import { embeddingAnswerSchema, errorSchema } from './schemas/answers.ts';

const fox = 'The quick brown fox jumps over the lazy dog.';
const owl = 'An owl sleeps in the old tower until the moon rises over the hills.';

const shared = sharedServer({ settings: { maxEmbeddingInputs: 64 }, pool: { embedders: true } });
const { post, answer } = shared;
const embed = async (body: object) => embeddingAnswerSchema.parse(await answer('/v1/embeddings', body));

async function vectorOf(body: object): Promise<number[]> {
  return (await embed(body)).data[0]?.embedding as number[];
}

async function refusal(body: object) {
  const response = await post('/v1/embeddings', body);
  return { status: response.statusCode, ...errorSchema.parse(response.json()).error };
}

const lengthOf = (vector: readonly number[]) => Math.sqrt(vector.reduce((sum, value) => sum + value ** 2, 0));

describe('POST /v1/embeddings', () => {
  it('gives each text a vector of length 1, in order, and counts their tokens', async () => {
    const { tokenizer, spec } = shared.server.pool.model;
    const { data, usage, model } = await embed({ input: [fox, owl, fox] });
    expect(model).toBe('demo');
    expect(data.map(({ index }) => index)).toEqual([0, 1, 2]);
    for (const { embedding } of data) {
      expect(embedding.length).toBe(spec.hiddenSize);
      expect(lengthOf(embedding as number[])).toBeCloseTo(1, 5);
    }
    expect(data[2]?.embedding).toEqual(data[0]?.embedding);
    expect(data[1]?.embedding).not.toEqual(data[0]?.embedding);
    const count = (text: string) => tokenizer.encode(text, { bos: true, eos: true }).length;
    const tokens = 2 * count(fox) + count(owl);
    expect(usage).toEqual({ prompt_tokens: tokens, total_tokens: tokens });
  });

  it('takes a text, token ids, and lists of either, to the same vector', async () => {
    const ids = [...shared.server.pool.model.tokenizer.encode(fox, { bos: true, eos: true })];
    const expected = await vectorOf({ input: fox });
    for (const input of [[fox], ids, [ids]]) expect(await vectorOf({ input })).toEqual(expected);
  });

  it('gives the same vector while answers are sampled', async () => {
    const expected = await vectorOf({ input: owl, model: 'embedder' });
    const [answer, vector] = await Promise.all([
      post('/v1/completions', { prompt: 'Once upon a time', max_tokens: 40, temperature: 0 }),
      vectorOf({ input: owl, model: 'embedder' }),
    ]);
    expect(answer.statusCode).toBe(200);
    expect(vector).toEqual(expected);
  });

  it('writes little-endian float32 in base64 where asked to', async () => {
    const expected = await vectorOf({ input: fox });
    const { data } = await embed({ input: fox, encoding_format: 'base64' });
    const bytes = Buffer.from(data[0]?.embedding as string, 'base64');
    expect(bytes.length).toBe(4 * expected.length);
    expect(expected.map((_, at) => bytes.readFloatLE(4 * at))).toEqual(expected);
  });

  it('cuts vectors to the wanted dimensions and makes them of length 1 again', async () => {
    const whole = await vectorOf({ input: fox });
    const cut = await vectorOf({ input: fox, dimensions: 16 });
    expect(cut.length).toBe(16);
    expect(lengthOf(cut)).toBeCloseTo(1, 5);
    const scale = lengthOf(whole.slice(0, 16));
    for (const [at, value] of cut.entries()) expect(value).toBeCloseTo((whole[at] as number) / scale, 5);
    expect(await vectorOf({ input: fox, dimensions: whole.length })).toEqual(whole);
  });

  it('pools as the model says', async () => {
    const [last, mean] = [await vectorOf({ input: fox }), await vectorOf({ input: fox, model: 'embedder' })];
    expect(mean).not.toEqual(last);
  });

  it.each([
    [{ input: '' }, 'input', 'invalid_value'],
    [{ input: [fox, ''] }, 'input[1]', 'invalid_value'],
    [{ input: [] }, 'input', 'invalid_value'],
    [{ input: [[1, 2], []] }, 'input[1]', 'invalid_value'],
    [{ input: [1, 999_999] }, 'input', 'invalid_value'],
    [{ input: [1.5] }, 'input', 'invalid_value'],
    [{ input: 7 }, 'input', 'invalid_value'],
    [{}, 'input', 'missing_required_parameter'],
    [{ input: fox, dimensions: 0 }, 'dimensions', 'invalid_value'],
    [{ input: fox, dimensions: 100_000 }, 'dimensions', 'invalid_value'],
    [{ input: fox, dimensions: 1.5 }, 'dimensions', 'invalid_type'],
    [{ input: fox, encoding_format: 'hex' }, 'encoding_format', 'invalid_value'],
    [{ input: Array.from({ length: 65 }, () => 'a') }, 'input', 'invalid_value'],
    [{ input: Array.from({ length: 4097 }, () => 1) }, 'input', 'context_length_exceeded'],
    [{ input: fox, model: 'ranker' }, 'model', 'model_not_capable'],
    [{ input: fox, normalize: false }, 'normalize', 'unsupported_parameter'],
  ])('refuses %j', async (body, param, code) => {
    expect(await refusal(body)).toMatchObject({ status: 400, type: 'invalid_request_error', param, code });
  });

  it('says what it ignores', async () => {
    const { headers, statusCode } = await post('/v1/embeddings', { input: fox, user: 'me', colour: 'red' });
    expect(statusCode).toBe(200);
    expect(headers['x-chairlift-warning']).toBe('unknown parameters were ignored: colour');
  });

  it('counts against the limits of the key, and in metrics, usage and log', async () => {
    const recorded: object[] = [];
    const limited = await start({
      limiter: new Limiter(),
      usage: {
        record: (_, used) => recorded.push(used),
        recordOnce: (_id, _key, used) => recorded.push(used),
        written: async () => {},
        report: async () => [],
      },
      keys: {
        status: async () => 'live',
        findById: async () => undefined,
        findByKey: async () => ({
          id: 'k',
          name: 'k',
          prefix: '',
          tier: 'normal',
          admin: false,
          limits: { tokensPerMinute: 40 },
          createdMs: 0,
        }),
      },
    });
    const ask = (input: string[]) =>
      limited.app.inject({
        method: 'POST',
        url: '/v1/embeddings',
        headers: { authorization: 'Bearer x' },
        payload: { input },
      });
    const served = await ask([fox, fox]);
    const { usage } = embeddingAnswerSchema.parse(served.json());
    const left = 40 - usage.total_tokens;
    expect(served.headers['x-ratelimit-remaining-tokens']).toBe(String(left));
    expect(left).toBeLessThan(usage.total_tokens);
    const refused = await ask([fox, fox]);
    expect(refused.statusCode).toBe(429);
    expect(errorSchema.parse(refused.json()).error.code).toBe('rate_limit_exceeded');
    expect(recorded).toMatchObject([
      { promptTokens: usage.prompt_tokens, completionTokens: 0, failed: false },
    ]);
    const metrics = (await limited.app.inject({ url: '/metrics' })).body;
    expect(metrics).toContain(`chairlift_prompt_tokens_total{model="demo"} ${usage.prompt_tokens}`);
    expect(metrics).toContain('chairlift_request_seconds_count{model="demo",tier="normal"} 1');
    expect(metrics).not.toContain('chairlift_time_to_first_token_seconds_count{model="demo"');
    expect(limited.log.filter(({ msg }) => msg === 'embedding')).toMatchObject([
      { model: 'demo', outcome: 'ok', promptTokens: usage.prompt_tokens, keyId: 'k' },
    ]);
  });

  it('waits in the queue like any other', async () => {
    const { app } = await start({ settings: { maxQueuedTokens: 30, maxQueuedRequests: 1 } });
    const payload = { input: Array.from({ length: 30 }, () => owl) };
    const ask = async () => app.inject({ method: 'POST', url: '/v1/embeddings', payload });
    const statuses = (await Promise.all([ask(), ask(), ask()])).map(({ statusCode }) => statusCode);
    expect(statuses.sort()).toEqual([200, 429, 429]);
    expect((await ask()).statusCode).toBe(200);
  });

  it('ends at its deadline, and lets go of everything', async () => {
    const input = Array.from({ length: 64 }, (_, at) => `${at} ${owl} `.repeat(100));
    const response = await post('/v1/embeddings', { input }, { 'x-chairlift-timeout-ms': '30' });
    expect(response.statusCode).toBe(408);
    await expect.poll(async () => (await shared.server.pool.engine.stats()).blocks.used).toBe(0);
    expect((await shared.server.pool.engine.stats()).queues.every(({ waiting }) => waiting === 0)).toBe(true);
  });
});
