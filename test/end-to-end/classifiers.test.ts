// The running program with a cross-encoder and a classifier: scores of whole texts, against the sentence-transformers library and
// the pipelines of transformers (tools/formula-models/cross_encoders.py).

import { mkdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeAll, describe, expect, it } from 'vitest';
import { writeClassifierFolder } from '../support/encoder-folder.ts';
import { type ServerProcess, serverHome } from '../support/server-process.ts';

const golden: {
  readonly query: string;
  readonly documents: readonly string[];
  readonly scores: readonly number[];
  readonly raw: readonly number[];
  readonly classes: readonly Readonly<Record<string, number>>[];
} = JSON.parse(readFileSync(new URL('../golden/cross-encoders.json', import.meta.url), 'utf8'));
const { query, documents } = golden;

const home = serverHome();
let server: ServerProcess;
let key: string;

beforeAll(async () => {
  key = home.createKey('tester', 'normal');
  const folder = join(home.folder, 'models');
  mkdirSync(folder);
  writeClassifierFolder(join(folder, 'ranker'), 'bert');
  writeClassifierFolder(join(folder, 'classifier'), 'bert of three labels');
  server = await home.start('--models-folder', folder);
});

async function post<Answer>(path: string, body: object, status = 200): Promise<Answer> {
  const response = await fetch(`${server.url}${path}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', authorization: `Bearer ${key}` },
    body: JSON.stringify(body),
  });
  if (response.status !== status) throw new Error(`${response.status} ${await response.text()}`);
  return (await response.json()) as Answer;
}

function expectClose(found: readonly number[], known: readonly number[]): void {
  expect(found.length).toBe(known.length);
  for (const [at, value] of known.entries())
    expect(Math.abs((found[at] as number) - value)).toBeLessThan(1e-4);
}

type Scores = { readonly data: readonly { readonly score: number }[] };
type Ranked = { readonly results: readonly { readonly index: number; readonly relevance_score: number }[] };

describe('a cross-encoder', () => {
  const score = async (text: readonly string[], more: object = {}) =>
    (await post<Scores>('/v1/score', { model: 'ranker', text_1: query, text_2: text, ...more })).data.map(
      (one) => one.score,
    );

  it('gives the scores of sentence-transformers, and the outputs of its head', async () => {
    expectClose(await score(documents), golden.scores);
    expectClose(await score(documents, { use_activation: false }), golden.raw);
  });

  it('gives many documents at once the scores that each has alone', async () => {
    const many = Array.from({ length: 60 }, (_, at) => `${documents[at % 5]} ${'fox '.repeat(at % 13)}`);
    const together = await score(many);
    for (const at of [0, 7, 31, 59]) expect(await score([many[at] as string])).toEqual([together[at]]);
  });

  it('ranks documents, in every shape', async () => {
    const order = golden.scores.map((one, index) => ({ one, index })).sort((a, b) => b.one - a.one);
    const expected = order.map(({ index }) => index);
    const ranked = await post<Ranked>('/v1/rerank', { model: 'ranker', query, documents });
    expect(ranked.results.map(({ index }) => index)).toEqual(expected);
    const texts = await post<{ index: number; score: number }[]>('/rerank', {
      model: 'ranker',
      query,
      texts: documents,
      raw_scores: true,
    });
    expect(texts.map(({ index }) => index)).toEqual(expected);
    expectClose(
      texts.map((one) => one.score),
      order.map(({ index }) => golden.raw[index] as number),
    );
  });

  it('refuses what is too long, unless it may be cut', async () => {
    const long = `${documents[2]} ${'fox '.repeat(100)}`;
    const asked = { model: 'ranker', query, documents: [long] };
    const { error } = await post<{ error: { code: string; param: string } }>('/v1/rerank', asked, 400);
    expect(error).toMatchObject({ code: 'context_length_exceeded', param: 'documents[0]' });
    const cut = await post<Ranked>('/v1/rerank', { ...asked, truncate: true });
    expect(cut.results[0]?.relevance_score).toBeGreaterThan(0);
  });

  it('has no vectors, and refuses to continue texts', async () => {
    const { error } = await post<{ error: object }>('/v1/embeddings', { model: 'ranker', input: query }, 400);
    expect(error).toMatchObject({ code: 'model_not_capable' });
    await post('/v1/completions', { model: 'ranker', prompt: query }, 400);
  });
});

describe('a classifier', () => {
  type Classes = { readonly data: readonly { label: string; probs: number[]; num_classes: number }[] };

  it('gives the labels of transformers’ pipelines', async () => {
    const { data } = await post<Classes>('/classify', { model: 'classifier', input: documents });
    const labels = ['LABEL_0', 'LABEL_1', 'LABEL_2'];
    for (const [at, { label, probs, num_classes: count }] of data.entries()) {
      const known = golden.classes[at] ?? {};
      expectClose(
        probs,
        labels.map((one) => known[one] as number),
      );
      expect(label).toBe('LABEL_1');
      expect(count).toBe(3);
    }
    const pooled = await post<{ data: { data: number[] }[] }>('/pooling', {
      model: 'classifier',
      input: documents,
    });
    expect(pooled.data.map((one) => one.data)).toEqual(data.map(({ probs }) => probs));
  });

  it('ranks nothing', async () => {
    const { error } = await post<{ error: { message: string } }>(
      '/v1/rerank',
      { model: 'classifier', query, documents },
      400,
    );
    expect(error.message).toContain('classifies texts by 3 labels');
  });
});
