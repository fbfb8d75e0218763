// Documents by the cosine of their vectors and the query's, through the whole server with the embedded model.

import { describe, expect, it } from 'vitest';
import { sharedServer } from '../../../test/support/keyed-server.ts';
import { embeddingAnswerSchema, errorSchema } from '../openai/schemas/answers.ts';
import { rankedTextsSchema, rerankAnswerSchema, scoreAnswerSchema } from './schemas.ts';

const fox = 'The quick brown fox jumps over the lazy dog.';
const owl = 'An owl sleeps in the old tower until the moon rises over the hills.';

const shared = sharedServer({ settings: { maxEmbeddingInputs: 64 }, pool: { embedders: true } });
const { post, answer } = shared;
const embed = async (body: object) => embeddingAnswerSchema.parse(await answer('/v1/embeddings', body));

async function refusal(body: object, url: string) {
  const response = await post(url, body);
  return { status: response.statusCode, ...errorSchema.parse(response.json()).error };
}

describe('POST /v1/rerank', () => {
  const documents = ['Two and two is four.', fox, { text: owl }];

  it('sorts documents by their cosine with the query', async () => {
    const response = await post('/v1/rerank', { model: 'embedder', query: fox, documents });
    const { results, usage, model } = rerankAnswerSchema.parse(response.json());
    expect(model).toBe('embedder');
    expect(results.map(({ relevance_score: score }) => score)).toEqual(
      results.map(({ relevance_score: score }) => score).sort((a, b) => b - a),
    );
    expect(results[0]).toMatchObject({ index: 1, document: { text: fox } });
    expect(results[0]?.relevance_score).toBeCloseTo(1, 5);
    const { data } = await embed({ model: 'embedder', input: [fox, owl] });
    const [query, other] = data.map(({ embedding }) => embedding as number[]);
    const product = query?.reduce((sum, value, at) => sum + value * (other?.[at] as number), 0);
    expect(results.find(({ index }) => index === 2)?.relevance_score).toBeCloseTo(product as number, 5);
    expect(usage.prompt_tokens).toBeGreaterThan(0);
  });

  it('returns as many as asked, with or without their texts', async () => {
    const body = { model: 'embedder', query: fox, documents, top_n: 2, return_documents: false };
    const { results } = rerankAnswerSchema.parse((await post('/v1/rerank', body)).json());
    expect(results.length).toBe(2);
    expect(results.every(({ document }) => document === undefined)).toBe(true);
  });

  it.each([
    [{ model: 'demo', query: fox, documents: [owl] }, 'model', 'model_not_capable'],
    [{ model: 'ranker', query: fox, documents: [owl] }, 'model', 'model_not_capable'],
    [{ query: '', documents: [owl] }, 'query', 'invalid_value'],
    [{ query: fox, documents: [] }, 'documents', 'invalid_value'],
    [{ query: fox, documents: [owl, ''] }, 'documents[1]', 'invalid_value'],
    [{ query: fox, documents: Array.from({ length: 65 }, () => 'a') }, 'documents', 'invalid_value'],
    [{ query: fox, documents: [owl], top_n: 0 }, 'top_n', 'invalid_value'],
  ])('refuses %j', async (body, param, code) => {
    expect(await refusal(body, '/v1/rerank')).toMatchObject({ status: 400, param, code });
  });

  it('answers Cohere without texts and with what was billed, at /v2', async () => {
    const body = { model: 'embedder', query: fox, documents };
    const first = rerankAnswerSchema.parse(await answer('/v1/rerank', body));
    const second = rerankAnswerSchema.parse(await answer('/v2/rerank', body));
    expect(second.meta?.billed_units.search_units).toBe(1);
    expect(second.results).toEqual(first.results.map(({ document: _, ...rest }) => rest));
    for (const url of ['/rerank', '/reranking', '/v1/reranking']) {
      expect(rerankAnswerSchema.parse(await answer(url, body)).results).toEqual(first.results);
    }
  });

  it('answers texts in the shape of Text Embeddings Inference', async () => {
    const texts = [owl, fox];
    const { results } = rerankAnswerSchema.parse(
      await answer('/rerank', { model: 'embedder', query: fox, documents: texts }),
    );
    const ranked = rankedTextsSchema.parse(await answer('/rerank', { model: 'embedder', query: fox, texts }));
    expect(ranked).toEqual(results.map(({ index, relevance_score: score }) => ({ index, score })));
    const shown = rankedTextsSchema.parse(
      await answer('/rerank', { model: 'embedder', query: fox, texts, return_text: true }),
    );
    expect(shown.map(({ text }) => text)).toEqual([fox, owl]);
  });
});

describe('POST /score of a model that embeds texts', () => {
  it('is the cosine of one text with each, or of pairs', async () => {
    const score = async (body: object) =>
      scoreAnswerSchema
        .parse(await answer('/v1/score', { model: 'embedder', ...body }))
        .data.map((one) => one.score);
    const [same, other] = await score({ text_1: fox, text_2: [fox, owl] });
    expect(same).toBeCloseTo(1, 5);
    const { results } = rerankAnswerSchema.parse(
      await answer('/v1/rerank', { model: 'embedder', query: fox, documents: [owl] }),
    );
    expect(other).toBe(results[0]?.relevance_score);
    expect(await score({ text_1: [fox, owl], text_2: [owl, owl] })).toEqual([other, expect.closeTo(1, 5)]);
    expect(await answer('/score', { model: 'embedder', text_1: fox, text_2: owl })).toHaveProperty('data');
  });

  it.each([
    [{ text_1: [fox, owl], text_2: [fox, owl, fox] }, 'text_1'],
    [{ text_1: '', text_2: owl }, 'text_1'],
    [{ text_1: fox }, 'text_2'],
    [{ text_1: fox, text_2: owl, use_activation: false }, 'use_activation'],
    [{ text_1: fox, text_2: owl, instruction: 'x' }, 'instruction'],
    [{ text_1: fox, text_2: owl, truncate_prompt_tokens: 5 }, 'truncate_prompt_tokens'],
  ])('refuses %j', async (body, param) => {
    expect(await refusal({ model: 'embedder', ...body }, '/v1/score')).toMatchObject({ status: 400, param });
  });

  it('is no classification', async () => {
    expect(await refusal({ model: 'embedder', input: fox }, '/classify')).toMatchObject({
      status: 400,
      code: 'model_not_capable',
    });
    const { data } = (await answer('/pooling', { model: 'embedder', input: fox })) as {
      data: { data: number[] }[];
    };
    expect(data[0]?.data).toEqual((await embed({ model: 'embedder', input: fox })).data[0]?.embedding);
  });
});
