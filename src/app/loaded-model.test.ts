import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { eventually } from '../../test/support/eventually.ts';
import { ChairliftError } from './chairlift-error.ts';
import { type LoadOptions, load, type Model } from './loaded-model.ts';

const user = (content: string) => [{ role: 'user' as const, content }];
const greeting = user('Hello, who are you?');
const story = 'Once upon a time there was a fox';
const greedy = { temperature: 0 } as const;

async function collect<Piece>(pieces: AsyncIterable<Piece>): Promise<Piece[]> {
  const all: Piece[] = [];
  for await (const piece of pieces) all.push(piece);
  return all;
}

let model: Model;
beforeAll(async () => {
  model = await load({ kvBlocks: 512, threads: 1 });
});
afterAll(() => model.close());

describe('a loaded model', () => {
  it('streams the text it gives as a whole', async () => {
    const answer = model.chat(greeting, greedy);
    const pieces = await collect(answer);
    const whole = await model.chat(greeting, greedy).result();
    expect(pieces.length).toBeGreaterThan(3);
    expect(pieces).not.toContain('');
    expect(pieces.join('')).toBe(whole.text);
    expect((await answer.result()).text).toBe(whole.text);
    expect(whole.finishReason).toBe('stop');
    expect(whole.usage.promptTokens).toBeGreaterThan(5);
    // It drafts where that pays, which on a busy machine may be nowhere.
    const counts = { accepted: expect.any(Number), rejected: expect.any(Number) };
    expect([undefined, counts]).toContainEqual(whole.usage.draftTokens);
    expect(whole.usage.guesses).toEqual(whole.usage.draftTokens);
  });

  it('gives the same tokens by chat, by completion and by token ids', async () => {
    const prompt = `<|im_start|>user\n${greeting[0]?.content}<|im_end|>\n<|im_start|>assistant\n`;
    const ids = model.tokenizer.encode(prompt, { special: true });
    const chat = await model.chat(greeting, greedy).result();
    const text = await model.complete(prompt, greedy).result();
    const answer = model.tokens(ids, greedy);
    const pieces = await collect(answer);
    const { tokens, usage, finishReason } = await answer.result();
    expect(text.text).toBe(chat.text);
    expect(pieces).toEqual(tokens.map((token) => ({ token })));
    expect(model.tokenizer.decode(tokens)).toBe(chat.text);
    expect(model.tokenizer.eosIds.has(tokens.at(-1) as number)).toBe(true);
    expect({ usage, finishReason }).toMatchObject({
      finishReason: 'stop',
      usage: { promptTokens: ids.length, completionTokens: tokens.length },
    });
    expect(usage.completionTokens).toBe(chat.usage.completionTokens);
  });

  it('embeds texts, the same alone and beside answers', async () => {
    const texts = [story, 'Hello, who are you?'];
    const [one, answer, { vectors, usage }] = await Promise.all([
      model.embed(story),
      model.complete(story, { ...greedy, maxTokens: 20 }).result(),
      model.embed(texts, { priority: 'low' }),
    ]);
    expect(answer.usage.completionTokens).toBe(20);
    expect(vectors.length).toBe(2);
    expect(vectors[0]).toEqual(one.vectors[0]);
    expect(vectors[0]?.reduce((sum, value) => sum + value ** 2, 0)).toBeCloseTo(1, 5);
    const tokens = texts.reduce((sum, text) => sum + model.tokenizer.encode(text, { bos: true }).length, 0);
    expect(usage).toMatchObject({ promptTokens: tokens, completionTokens: 0 });
    const cut = await model.embed(texts, { dimensions: 5 });
    expect(cut.vectors.map(({ length }) => length)).toEqual([5, 5]);
    expect((await model.embed([])).vectors).toEqual([]);
  });

  it('refuses what cannot be embedded, and ends when it is aborted', async () => {
    const codeOf = (call: Promise<unknown>) => call.catch((error: ChairliftError) => error.code);
    expect(await codeOf(model.embed(''))).toBe('invalid_value');
    expect(await codeOf(model.embed([7] as never))).toBe('invalid_value');
    expect(await codeOf(model.embed(story, { dimensions: 0 }))).toBe('invalid_value');
    expect(await codeOf(model.embed(story, { colour: 'red' } as never))).toBe('invalid_value');
    expect(await codeOf(model.embed('fox '.repeat(9000)))).toBe('context_length_exceeded');
    const enough = new AbortController();
    const endless = model.embed(
      Array.from({ length: 200 }, (_, at) => `${at} ${story}`.repeat(40)),
      {
        signal: enough.signal,
      },
    );
    setTimeout(() => enough.abort(), 20);
    await expect(endless).rejects.toMatchObject({ name: 'AbortError' });
  });

  it('samples by the seed, as often as asked', async () => {
    const sample = (seed: number) => model.complete(story, { seed, maxTokens: 20 }).result();
    const [first, again, other] = await Promise.all([sample(1), sample(1), sample(2)]);
    expect(first.text).toBe(again.text);
    expect(first.text).not.toBe(other.text);
    expect(first).toMatchObject({ finishReason: 'length', usage: { completionTokens: 20 } });
  });

  it('answers in a batch what it answers alone, in fewer passes', async () => {
    const heroes = ['a fox', 'an owl', 'a bear', 'a cat'].map((hero) => `Once upon a time there was ${hero}`);
    const tell = (prompt: string) =>
      model.complete(prompt, { ...greedy, maxTokens: 30, ignoreEos: true }).result();
    const alone: string[] = [];
    for (const hero of heroes) alone.push((await tell(hero)).text);
    const before = (await model.stats()).forwardPasses;
    const together = await Promise.all(heroes.map(tell));
    const passes = (await model.stats()).forwardPasses - before;
    expect(together.map(({ text }) => text)).toEqual(alone);
    expect(passes).toBeLessThan(2 * 30);
  });

  it('ends at a stop string and shows none of it', async () => {
    const { text } = await model.complete(story, { ...greedy, maxTokens: 40 }).result();
    const at = text.indexOf(' ', 20);
    const stop = text.slice(at, at + 5);
    const answer = model.complete(story, { ...greedy, maxTokens: 40, stop: ['never said', stop] });
    const pieces = await collect(answer);
    expect(pieces.join('')).toBe(text.slice(0, text.indexOf(stop)));
    expect((await answer.result()).finishReason).toBe('stop');
  });

  it('tells log-probabilities where they are asked for', async () => {
    const options = { ...greedy, maxTokens: 5, logprobs: 2 };
    const ids = model.tokenizer.encode(story, { bos: true });
    const pieces = await collect(model.tokens(ids, options));
    expect(pieces).toHaveLength(5);
    for (const { token, logprob, top } of pieces) {
      expect(top).toHaveLength(2);
      expect(top?.[0]).toEqual({ token, logprob });
      expect(logprob).toBeLessThanOrEqual(0);
    }
    const { logprobs } = await model.complete(story, options).result();
    expect(logprobs.map(({ token, logprob }) => ({ token, logprob }))).toEqual(
      pieces.map(({ token, logprob }) => ({ token, logprob })),
    );
  });

  it('aborts at once, also in the engine', async () => {
    const { cancelled } = (await model.stats()).requests;
    const controller = new AbortController();
    const endless = { ...greedy, ignoreEos: true, signal: controller.signal };
    const ids = model.tokenizer.encode(story);
    const answers = [
      model.chat(greeting, endless),
      model.complete(story, endless),
      model.tokens(ids, endless),
    ];
    for (const answer of answers) await answer[Symbol.asyncIterator]().next();
    expect((await model.stats()).running).toHaveLength(3);
    controller.abort();
    for (const answer of answers) await expect(answer.result()).rejects.toMatchObject({ name: 'AbortError' });
    await eventually(async () => expect((await model.stats()).running).toEqual([]));
    const { requests, blocks } = await model.stats();
    expect(requests.cancelled).toBe(cancelled + 3);
    expect(blocks.used).toBe(0);
  });

  it('ends in the engine when a loop is left', async () => {
    const { cancelled } = (await model.stats()).requests;
    for await (const _ of model.complete(story, { ...greedy, ignoreEos: true })) break;
    await eventually(async () => expect((await model.stats()).requests.cancelled).toBe(cancelled + 1));
  });

  it.each<[string, () => Promise<unknown>, string, RegExp]>([
    ['a wrong value', () => model.chat(greeting, { topP: 2 }).result(), 'invalid_value', /^topP: /],
    [
      'an unknown option',
      () => model.complete(story, { max_tokens: 5 } as object).result(),
      'invalid_value',
      /^max_tokens: .*no such option/,
    ],
    [
      'stop strings for token ids',
      () => model.tokens([1], { stop: ['x'] } as object).result(),
      'invalid_value',
      /^stop: /,
    ],
    [
      'an empty stop string',
      () => model.complete(story, { stop: [''] }).result(),
      'invalid_value',
      /^stop: /,
    ],
    ['no messages', () => model.chat([]).result(), 'invalid_value', /^messages: /],
    [
      'a role there is not',
      () => model.chat([{ role: 'poet' as 'user', content: 'x' }]).result(),
      'invalid_value',
      /^messages\[0\]\.role: /,
    ],
    [
      'an id beyond the vocabulary',
      () => model.tokens([1e6]).result(),
      'invalid_value',
      /1000000 is no token/,
    ],
    ['half an id', () => model.tokens([1.5]).result(), 'invalid_value', /1\.5 is no token/],
    ['no ids', () => model.tokens([]).result(), 'invalid_value', /empty/],
    [
      'a prompt beyond the context',
      () => model.tokens(new Array(model.contextLength).fill(5)).result(),
      'context_length_exceeded',
      /tokens/,
    ],
  ])('refuses %s', async (_, call, code, message) => {
    const error = await call().then(
      () => undefined,
      (caught: unknown) => caught,
    );
    expect(error).toBeInstanceOf(ChairliftError);
    expect(error).toMatchObject({ code, message: expect.stringMatching(message) });
  });

  it('encodes long prompts, which a thread does, like short ones', async () => {
    const long = 'Once upon a time. '.repeat(2000);
    const count = model.tokenizer.encode(long, { bos: true }).length;
    await expect(model.complete(long).result()).rejects.toThrow(`the prompt has ${count} tokens`);
  });
});

describe('closing', () => {
  it('ends what runs, refuses what comes, and may be done twice', async () => {
    const short = await load({ kvBlocks: 256, threads: 1 });
    const running = short.complete(story, { ...greedy, ignoreEos: true });
    await running[Symbol.asyncIterator]().next();
    await Promise.all([short.close(), short.close()]);
    const closed = { name: 'ChairliftError', code: 'model_closed' };
    await expect(running.result()).rejects.toMatchObject(closed);
    await expect(collect(running)).rejects.toMatchObject(closed);
    await expect(short.chat(greeting).result()).rejects.toMatchObject(closed);
    await expect(short.stats()).rejects.toMatchObject(closed);
  });
});

describe('loading', () => {
  const folder = mkdtempSync(join(tmpdir(), 'chairlift-library-'));
  afterAll(() => rmSync(folder, { recursive: true }));
  const failure = (options: string | LoadOptions) =>
    load(options).then(
      async (loaded) => {
        await loaded.close();
        return undefined;
      },
      (error: unknown) => error,
    );

  it('names a file that is missing or no model', async () => {
    const missing = join(folder, 'missing.gguf');
    expect(await failure(missing)).toMatchObject({
      name: 'ChairliftError',
      code: 'model_load_failed',
      message: expect.stringContaining(missing),
    });
    const poem = join(folder, 'poem.gguf');
    writeFileSync(poem, 'no model at all');
    expect(await failure({ path: poem })).toMatchObject({ code: 'model_load_failed' });
  });

  it('refuses a model that memory has no room for', async () => {
    expect(await failure({ memory: '1MB' })).toMatchObject({ code: 'model_does_not_fit' });
  });

  it.each<[object, RegExp]>([
    [{ threads: 0 }, /^threads: /],
    [{ kvType: 'f64' }, /^kvType: give one of f16, q8/],
    [{ kvMemory: 'much' }, /^kvMemory: /],
    [{ port: 8000 }, /^port: there is no such option/],
  ])('refuses the options %j', async (options, message) => {
    expect(await failure(options)).toMatchObject({
      code: 'invalid_configuration',
      message: expect.stringMatching(message),
    });
  });

  it('keeps to the context, the KV type and one request at a time where it is told to', async () => {
    const small = await load({ context: 64, kvType: 'q8', direct: true, threads: 1, kvMemory: '8MiB' });
    try {
      expect(small).toMatchObject({ contextLength: 64, direct: true });
      const tell = () => small.complete(story, { ...greedy, ignoreEos: true }).result();
      const [first, second] = await Promise.all([tell(), tell()]);
      expect(first?.usage.promptTokens).toBe(64 - (first?.usage.completionTokens ?? 0));
      expect(second?.text).toBe(first?.text);
      const { lastStep, requests } = await small.stats();
      expect(lastStep.sequences).toBe(1);
      expect(requests.direct).toBe(2);
    } finally {
      await small.close();
    }
  });
});
