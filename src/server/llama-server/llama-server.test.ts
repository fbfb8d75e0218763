// llama-server's own routes through the whole server with the embedded model, without a socket.

import { describe, expect, it } from 'vitest';
import { messages, sharedServer, start, startWithKeys } from '../../../test/support/keyed-server.ts';
import type { ModelEntry } from '../../pool/model-pool.ts';
import type { ServedModel } from '../../pool/served-model.ts';
import type { ServerContext } from '../context.ts';
import { errorSchema } from '../openai/schemas/answers.ts';
import { completionAnswerSchema } from './answers.ts';
import { embeddingAnswerSchema } from './embedding.ts';
import { KnownProps, shownProps } from './props.ts';

const shared = sharedServer({ pool: { embedders: true } });
const { post, answer } = shared;
const prompt = 'Once upon a time there was';
const greedy = { prompt, temperature: 0, n_predict: 8 };

const complete = async (body: object) =>
  completionAnswerSchema.parse(await answer('/completion', { ...greedy, ...body }));

async function streamed(body: object) {
  const response = await post('/completion', { ...greedy, stream: true, ...body });
  expect(response.statusCode).toBe(200);
  return response.body
    .split('\n\n')
    .filter((line) => line.startsWith('data: '))
    .map((line) => completionAnswerSchema.parse(JSON.parse(line.slice(6))));
}

async function refusal(body: object, url = '/completion') {
  const response = await post(url, body);
  return { status: response.statusCode, ...errorSchema.parse(response.json()).error };
}

const encoded = async (text: string): Promise<number[]> =>
  ((await answer('/tokenize', { content: text })) as { tokens: number[] }).tokens;

describe('POST /completion', () => {
  it('continues a text as /v1/completions does, in its own shape', async () => {
    const open = (await answer('/v1/completions', { prompt, temperature: 0, max_tokens: 8 })) as {
      choices: { text: string }[];
      usage: { prompt_tokens: number };
    };
    const { content, ...rest } = await complete({});
    expect(content).toBe(open.choices[0]?.text);
    expect(rest).toMatchObject({
      index: 0,
      tokens: [],
      stop: true,
      model: 'demo',
      tokens_predicted: 8,
      tokens_evaluated: open.usage.prompt_tokens,
      has_new_line: false,
      truncated: false,
      stop_type: 'limit',
      stopping_word: '',
    });
    expect(rest.prompt).toContain(prompt);
    const { timings, tokens_evaluated: all, tokens_cached: cached } = rest;
    expect(timings).toMatchObject({ cache_n: cached, predicted_n: 8 });
    expect((timings?.prompt_n ?? 0) + (timings?.cache_n ?? 0)).toBe(all);
    expect(timings?.predicted_per_second).toBeCloseTo((7 / (timings?.predicted_ms ?? 0)) * 1000, 5);
  });

  it('gives the same answer again with the seed that it shows', async () => {
    const body = { prompt: 'Once upon a time', temperature: 1, n_predict: 16 };
    const first = await complete(body);
    const { seed } = first.generation_settings as { seed: number };
    expect(Number.isSafeInteger(seed)).toBe(true);
    expect((await complete({ ...body, seed })).content).toBe(first.content);
    expect((await complete({ ...body, seed: -3 })).generation_settings).toMatchObject({ seed: -3 });
  });

  it('says by which settings', async () => {
    const body = { seed: 42, top_k: 5, min_p: 0.1, stop: ['END'], grammar: '', n_predict: 4 };
    const { generation_settings: settings } = await complete(body);
    expect(settings).toMatchObject({
      seed: 42,
      temperature: 0,
      top_k: 5,
      min_p: 0.1,
      n_predict: 4,
      max_tokens: 4,
      stop: ['END'],
      n_probs: 0,
      repeat_penalty: 1,
      logit_bias: [],
      stream: false,
      ignore_eos: false,
    });
    const ignoring = await complete({ ignore_eos: true });
    const biases = ignoring.generation_settings?.logit_bias as { token: number; bias: null }[];
    expect(biases.length).toBeGreaterThan(0);
    expect(biases.every(({ bias }) => bias === null)).toBe(true);
  });

  it('streams pieces that are the whole answer together, each with its tokens', async () => {
    const whole = await complete({ return_tokens: true });
    const pieces = await streamed({ timings_per_token: true });
    const last = pieces.pop();
    expect(pieces.map(({ content }) => content).join('')).toBe(whole.content);
    expect(pieces.flatMap(({ tokens }) => tokens)).toEqual(whole.tokens);
    expect(pieces.every(({ stop, timings }) => !stop && timings !== undefined)).toBe(true);
    expect(last).toMatchObject({ content: '', stop: true, stop_type: 'limit', prompt: whole.prompt });
    expect(last?.generation_settings).toMatchObject({ stream: true });
  });

  it('ends at a word and names it, or at the end of the text', async () => {
    const { content } = await complete({ n_predict: 20 });
    const word = content.trim().split(' ')[3] as string;
    const stopped = await complete({ n_predict: 20, stop: [word] });
    expect(stopped).toMatchObject({ stop_type: 'word', stopping_word: word });
    expect(stopped.content).toBe(content.slice(0, content.indexOf(word)));
    const { prompt: chat } = (await answer('/apply-template', { messages })) as { prompt: string };
    expect(await complete({ prompt: chat, n_predict: -1 })).toMatchObject({ stop_type: 'eos' });
  });

  it('says that it was truncated where the context is full, and not where n_predict ends it', async () => {
    const { default_generation_settings: defaults } = (await shared.server.app.inject('/props')).json();
    const ids = await encoded(prompt);
    const long = Array.from({ length: defaults.n_ctx - 3 }, (_, at) => ids[at % ids.length]);
    const full = await complete({ prompt: long, n_predict: -1, ignore_eos: true });
    expect(full).toMatchObject({ truncated: true, stop_type: 'limit', tokens_predicted: 3 });
    expect(await complete({ prompt: long, n_predict: 2 })).toMatchObject({ truncated: false });
  });

  it('returns the likeliest tokens, whole and in a stream', async () => {
    const whole = await complete({ n_probs: 4, n_predict: 5 });
    const list = whole.completion_probabilities ?? [];
    expect(list.length).toBe(5);
    for (const { id, logprob, top_logprobs: top } of list) {
      expect(top.length).toBe(4);
      expect(top[0]).toMatchObject({ id, logprob });
      expect(logprob).toBeLessThanOrEqual(0);
    }
    const pieces = await streamed({ n_probs: 4, n_predict: 5 });
    expect(pieces.flatMap(({ completion_probabilities: some = [] }) => some)).toEqual(list);
  });

  it('takes texts, token ids, and both in one sequence, to the same answer', async () => {
    const { content } = await complete({});
    const [first = '', ...rest] = prompt.split(/(?= there)/);
    const mixed = [...(await encoded(first)), rest.join('')];
    for (const one of [await encoded(prompt), { prompt_string: prompt }, mixed, [prompt]]) {
      expect((await complete({ prompt: one })).content).toBe(content);
    }
    const both = (await answer('/completion', { ...greedy, prompt: [prompt, mixed] })) as object[];
    expect(both.map((one) => completionAnswerSchema.parse(one).content)).toEqual([content, content]);
  });

  it('biases tokens by id or by text, in a list or an object', async () => {
    const { tokens } = await complete({ return_tokens: true });
    const [first] = tokens;
    const text = ((await answer('/detokenize', { tokens: [first] })) as { content: string }).content;
    const [spelled] = await encoded(text);
    for (const bias of [[[first, false]], [[first, -100]], { [String(first)]: -100 }]) {
      const other = await complete({ logit_bias: bias, return_tokens: true });
      expect(other.tokens[0]).not.toBe(first);
    }
    const named = await complete({ logit_bias: [[text, 3]], n_predict: 1 });
    expect(named.generation_settings?.logit_bias).toContainEqual({ token: spelled, bias: 3 });
  });

  it('returns only the fields that were asked for', async () => {
    const fields = ['content', 'generation_settings/n_predict', 'nothing', 'timings/none'];
    const only = await answer('/completion', { ...greedy, response_fields: fields });
    expect(only).toEqual({ content: expect.any(String), 'generation_settings/n_predict': 8 });
  });

  it('gives several answers to one prompt', async () => {
    const several = (await answer('/completion', { ...greedy, n_cmpl: 2, temperature: 1 })) as object[];
    expect(several.map((one) => completionAnswerSchema.parse(one).index)).toEqual([0, 1]);
  });

  it('biases more tokens by their ids than by texts, which must be encoded', async () => {
    const ids = Array.from({ length: 400 }, (_, id) => [id, -1]);
    const { generation_settings: settings } = await complete({ logit_bias: ids, n_predict: 1 });
    expect(settings?.logit_bias).toHaveLength(400);
  });

  it('evaluates nothing where n_predict is 0', async () => {
    expect(await complete({ n_predict: 0 })).toMatchObject({ content: '', tokens_predicted: 0 });
  });

  it.each([
    [{}, 'prompt', 'missing_required_parameter'],
    [{ prompt: [] }, 'prompt', 'invalid_value'],
    [{ prompt: { prompt_string: 'a', multimodal_data: ['x'] } }, 'prompt.prompt_string', 'invalid_value'],
    [{ prompt: [1, 99_999_999] }, 'prompt', 'invalid_value'],
    [{ prompt: [1, true] }, 'prompt', 'invalid_value'],
    [{ prompt, n_predict: -3 }, 'n_predict', 'invalid_value'],
    [{ prompt, n_probs: 1000 }, 'n_probs', 'invalid_value'],
    [{ prompt, logit_bias: [[1]] }, 'logit_bias', 'invalid_value'],
    [{ prompt, logit_bias: [[99_999_999, 1]] }, 'logit_bias', 'invalid_value'],
    [{ prompt, logit_bias: { ['a'.repeat(65)]: 1 } }, 'logit_bias', 'invalid_value'],
    [{ prompt, logit_bias: Array(301).fill(['a', 1]) }, 'logit_bias', 'invalid_value'],
    [{ prompt, post_sampling_probs: true }, 'post_sampling_probs', 'unsupported_parameter'],
    [{ prompt, n_indent: 4 }, 'n_indent', 'unsupported_parameter'],
    [{ prompt, lora: [{ id: 0, scale: 1 }] }, 'lora', 'invalid_value'],
  ])('refuses %j', async (body, param, code) => {
    expect(await refusal(body)).toMatchObject({ status: 400, param, code });
  });
});

describe('a path that llama-server and OpenAI share', () => {
  it('is OpenAI’s where the body names a model, and llama-server’s otherwise', async () => {
    expect(await answer('/completions', greedy)).toHaveProperty('content');
    expect(await answer('/completions', { prompt, model: 'demo', max_tokens: 1 })).toHaveProperty('choices');
    expect(await answer('/embeddings', { input: prompt, model: 'demo' })).toHaveProperty('data');
    const [own] = embeddingAnswerSchema.parse(await answer('/embeddings', { input: prompt }));
    expect(own?.index).toBe(0);
  });
});

describe('POST /embedding', () => {
  const vectorOf = async (body: object) =>
    embeddingAnswerSchema.parse(await answer('/embedding', body))[0]?.embedding[0] ?? [];

  it('gives the vector of /v1/embeddings, by the norm that was asked for', async () => {
    const open = (await answer('/v1/embeddings', { input: prompt })) as { data: { embedding: number[] }[] };
    expect(await vectorOf({ content: prompt })).toEqual(open.data[0]?.embedding);
    const raw = await vectorOf({ content: prompt, embd_normalize: -1 });
    const length = Math.hypot(...raw);
    expect(open.data[0]?.embedding[0]).toBeCloseTo((raw[0] as number) / length, 5);
    const absolute = (await vectorOf({ content: prompt, embd_normalize: 1 })).map(Math.abs);
    expect(absolute.reduce((sum, value) => sum + value, 0)).toBeCloseTo(1, 4);
    const largest = await vectorOf({ content: prompt, embd_normalize: 0 });
    expect(Math.max(...largest.map(Math.abs))).toBeCloseTo(32_760, 0);
    const cubed = (await vectorOf({ content: prompt, embd_normalize: 3 })).map(
      (value) => Math.abs(value) ** 3,
    );
    expect(cubed.reduce((sum, value) => sum + value, 0)).toBeCloseTo(1, 4);
  });

  it('takes ids and texts in one sequence', async () => {
    const list = embeddingAnswerSchema.parse(
      await answer('/embedding', { content: [prompt, [5, 'fox', 7], [1, 2]] }),
    );
    expect(list.map(({ index }) => index)).toEqual([0, 1, 2]);
  });

  it.each([
    [{}, 'content'],
    [{ content: '' }, 'content'],
    [{ content: prompt, embd_normalize: -2 }, 'embd_normalize'],
    [{ content: prompt, embd_normalize: 2, pooling: 'none' }, 'embd_normalize'],
    [{ content: prompt, pooling: 'mean' }, 'pooling'],
    [{ content: Array.from({ length: 200 }, () => 'A fox. '.repeat(100)), pooling: 'none' }, 'input'],
  ])('refuses %j', async (body, param) => {
    expect(await refusal(body, '/embedding')).toMatchObject({ status: 400, param });
  });
});

describe('a vector for each token', () => {
  const states = async (content: unknown, model = 'embedder') =>
    embeddingAnswerSchema.parse(await answer('/embedding', { model, content, pooling: 'none' }));
  const pooled = async (content: string, model: string) =>
    embeddingAnswerSchema.parse(await answer('/embedding', { model, content, embd_normalize: -1 }))[0]
      ?.embedding[0] as number[];

  it('is what pooling takes: the last of them, or their mean', async () => {
    const [{ embedding: rows } = { embedding: [] }] = await states(prompt);
    const { tokenizer } = shared.server.pool.model;
    expect(rows.length).toBe(tokenizer.encode(prompt, { bos: true, eos: true }).length);
    expect(rows.at(-1)).toEqual(await pooled(prompt, 'demo'));
    const mean = await pooled(prompt, 'embedder');
    for (const [at, value] of mean.entries()) {
      const sum = rows.reduce((total, row) => total + (row[at] as number), 0);
      expect(sum / rows.length).toBeCloseTo(value, 5);
    }
  });

  it('has the same bits alone and among others, and after the prompt was cached', async () => {
    const texts = [prompt, `${prompt} a fox that`, 'Another'];
    const together = await states(texts);
    for (const [at, text] of texts.entries()) {
      await answer('/completion', { prompt: text, n_predict: 1 });
      expect((await states(text))[0]?.embedding).toEqual(together[at]?.embedding);
    }
  });

  it('comes from /pooling, too, for the task token_embed, and never from /v1/embeddings', async () => {
    const [{ embedding: rows } = { embedding: [] }] = await states(prompt);
    const body = { model: 'embedder', input: prompt };
    expect(await answer('/pooling', { ...body, task: 'token_embed' })).toMatchObject({
      data: [{ data: rows }],
    });
    expect(await refusal({ ...body, task: 'classify' }, '/pooling')).toMatchObject({ status: 400 });
    const { data } = (await answer('/pooling', { ...body, task: 'embed' })) as { data: { data: number[] }[] };
    expect(data).toEqual(((await answer('/pooling', body)) as { data: unknown }).data);
    expect(await refusal({ ...body, pooling: 'none' }, '/v1/embeddings')).toMatchObject({ param: 'pooling' });
  });
});

describe('POST /tokenize and /detokenize of llama-server', () => {
  it('encode a content without tokens in front, unless they are asked for', async () => {
    const { tokenizer } = shared.server.pool.model;
    const tokens = await encoded(prompt);
    expect(tokens).toEqual([...tokenizer.encode(prompt, { special: true })]);
    const special = (await answer('/tokenize', { content: prompt, add_special: true })) as {
      tokens: number[];
    };
    expect(special.tokens).toEqual([...tokenizer.encode(prompt, { special: true, bos: true })]);
    expect(await answer('/detokenize', { tokens })).toMatchObject({ content: prompt });
  });

  it('read control tokens in a content, unless that is switched off', async () => {
    const mark = '<|im_start|>';
    const { tokens: plain } = (await answer('/tokenize', { content: mark, parse_special: false })) as {
      tokens: number[];
    };
    expect((await encoded(mark)).length).toBe(1);
    expect(plain.length).toBeGreaterThan(1);
  });

  it('show pieces, as bytes where they are no whole characters', async () => {
    const content = 'Hello 媽 🤗';
    const { tokens } = (await answer('/tokenize', { content, with_pieces: true })) as {
      tokens: { id: number; piece: string | number[] }[];
    };
    expect(tokens.map(({ id }) => id)).toEqual(await encoded(content));
    const bytes = tokens.flatMap(({ piece }) =>
      typeof piece === 'string' ? [...Buffer.from(piece)] : piece,
    );
    expect(Buffer.from(bytes).toString('utf8').trim()).toBe(content);
  });
});

describe('GET /props and /slots', () => {
  it('load no model for an image in a page of another site', async () => {
    const read = async (site: string) =>
      (await shared.server.app.inject({ url: '/props', headers: { 'sec-fetch-site': site } })).statusCode;
    expect(await read('cross-site')).toBe(403);
    expect(await read('same-site')).toBe(403);
    expect(await read('same-origin')).toBe(200);
    expect(await read('none')).toBe(200);
  });

  it('tell the context, the defaults of sampling and the template', async () => {
    const props = (await shared.server.app.inject('/props')).json();
    expect(props).toMatchObject({
      model_alias: 'demo',
      modalities: { vision: false, audio: false },
      default_generation_settings: { params: { temperature: 1, top_k: 0, n_predict: -1 } },
    });
    expect(props.default_generation_settings.n_ctx).toBeGreaterThan(0);
    expect(props.chat_template).toContain('messages');
    const set = await start({ settings: { samplingDefaults: { temperature: 0.5 }, maxBatchSize: 3 } });
    const other = (await set.app.inject('/props')).json();
    expect(other.default_generation_settings.params.temperature).toBe(0.5);
    expect(other.total_slots).toBe(3);
    expect((await shared.server.app.inject('/props?model=nothing')).statusCode).toBe(404);
  });

  it('describe a model that is unloaded as it was, without loading it', async () => {
    const { pool } = shared.server;
    let loaded: readonly ServedModel[] = pool.loaded();
    const context = {
      pool: { loaded: () => loaded },
      settings: { samplingDefaults: {} },
      version: '1',
    } as unknown as ServerContext;
    const known = new KnownProps(context);
    const [entry] = pool.list() as [ModelEntry];
    loaded = [];
    expect(known.find(entry)).toBeUndefined();
    loaded = pool.loaded();
    const awake = known.find(entry);
    loaded = [];
    const asleep = known.find(entry);
    expect(asleep).toEqual(awake);
    const shown = (state: ModelEntry['state']) =>
      asleep && shownProps(asleep, { ...entry, state }, { admin: false });
    expect(shown('loaded')).toMatchObject({ is_sleeping: false });
    expect(shown('unloaded')).toMatchObject({ is_sleeping: true, model_alias: entry.name });
    expect(known.find({ ...entry, createdSeconds: entry.createdSeconds + 1 })).toBeUndefined();
  });

  it('show which sequences run', async () => {
    const { app } = await start({ settings: { maxBatchSize: 2 } });
    const slots = async (query = '') => (await app.inject(`/slots${query}`)).json();
    const busy = (list: { is_processing: boolean }[]) => list.filter((slot) => slot.is_processing).length;
    expect(busy(await slots())).toBe(0);
    const payload = { prompt, n_predict: 2000, ignore_eos: true };
    const answers = [0, 1].map(() => app.inject({ method: 'POST', url: '/completion', payload }));
    await expect.poll(async () => busy(await slots()), { interval: 5, timeout: 5000 }).toBe(2);
    const full = await app.inject('/slots?fail_on_no_slot=1');
    expect(full.statusCode).toBe(503);
    await Promise.all(answers);
    const idle = await slots('?fail_on_no_slot=1');
    expect(idle.length).toBe(2);
    expect(busy(idle)).toBe(0);
  });

  it('need a key where there are any, and tell no other key how long a sequence is, or where files lie', async () => {
    const { call, secrets } = await startWithKeys({ boss: { admin: true }, guest: {} });
    expect((await call(undefined, '/slots')).statusCode).toBe(401);
    expect((await call(undefined, '/props')).statusCode).toBe(401);
    const pathFor = async (secret: string) => (await call(secret, '/props')).json().model_path as string;
    expect(await pathFor(secrets.boss)).toContain('/');
    expect(await pathFor(secrets.guest)).toMatch(/^[^/]+\.gguf$/);
    const running = call(secrets.boss, '/completion', { prompt, n_predict: 1500, ignore_eos: true });
    const seen = async (secret: string) =>
      ((await call(secret, '/slots')).json() as object[]).find((slot) => 'n_tokens' in slot);
    await expect.poll(() => seen(secrets.boss), { interval: 5, timeout: 5000 }).toBeDefined();
    expect(await seen(secrets.guest)).toBeUndefined();
    await running;
  });
});

describe('a prompt that is longer than the context', () => {
  it('is refused in the words of llama-server, with the numbers, and in those of OpenAI at its routes', async () => {
    const long = 'A fox and an owl. '.repeat(2000);
    const native = (await post('/completion', { prompt: long })).json().error;
    expect(native).toMatchObject({ type: 'exceed_context_size_error', n_ctx: expect.any(Number) });
    expect(native.message).toContain('exceeds the available context size');
    expect(native.n_prompt_tokens).toBeGreaterThan(native.n_ctx);
    expect((await post('/completions', { prompt: long })).json().error).toEqual(native);
    const { n_prompt_tokens, n_ctx } = native;
    const open = (await post('/completions', { prompt: long, model: 'demo' })).json().error;
    expect(open).toMatchObject({ type: 'invalid_request_error', n_prompt_tokens, n_ctx });
    expect(open.message).toContain('maximum context length is');
  });
});

describe("POST /models/load and /models/unload of llama-server's router", () => {
  it('load and unload for admins, and the list says where a model stands', async () => {
    const { call, secrets } = await startWithKeys({ boss: { admin: true }, guest: {} });
    expect((await call(secrets.guest, '/models/load', { model: 'demo' })).statusCode).toBe(403);
    expect((await call(secrets.boss, '/models/load', { model: 'nothing' })).statusCode).toBe(404);
    for (const url of ['/models/load', '/models/unload']) {
      const changed = await call(secrets.boss, url, { model: 'demo' });
      expect(changed.json(), url).toEqual({ success: true });
    }
    const { data } = (await call(secrets.guest, '/models')).json();
    expect(data[0]).toMatchObject({ id: 'demo', status: { value: 'loaded' } });
  });
});

describe('metrics under llama-server’s names', () => {
  const value = (text: string, name: string) =>
    Number(new RegExp(`^llamacpp:${name} (\\S+)$`, 'm').exec(text)?.[1] ?? Number.NaN);

  it('are there where they are set, and count what was answered', async () => {
    const { app } = await start({ settings: { llamaMetrics: true } });
    const metrics = async () => (await app.inject('/metrics')).body;
    expect(value(await metrics(), 'tokens_predicted_total')).toBe(0);
    const payload = { ...greedy, prompt: `${prompt} ${prompt} ${prompt} ${prompt} ${prompt} ${prompt}` };
    const timings = { predicted: 0, computed: 0, cached: 0 };
    for (let time = 0; time < 2; time++) {
      const answer = completionAnswerSchema.parse(
        (await app.inject({ method: 'POST', url: '/completion', payload })).json(),
      );
      timings.predicted += answer.timings?.predicted_n ?? 0;
      timings.computed += answer.timings?.prompt_n ?? 0;
      timings.cached += answer.timings?.cache_n ?? 0;
    }
    expect(timings.cached).toBeGreaterThan(0);
    const text = await metrics();
    expect(value(text, 'tokens_predicted_total')).toBe(timings.predicted);
    expect(value(text, 'prompt_tokens_total')).toBe(timings.computed);
    expect(value(text, 'prompt_tokens_cached_total')).toBe(timings.cached);
    expect(value(text, 'n_decode_total')).toBeGreaterThan(timings.predicted / 2);
    expect(value(text, 'requests_processing')).toBe(0);
    expect(text).toContain('chairlift_generated_tokens_total');
    expect((await shared.server.app.inject('/metrics')).body).not.toContain('llamacpp:');
  });
});
