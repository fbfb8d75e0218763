// Vectors of an upstream: of a second server of ours, and of a stand-in that sends what ours never would.

import type { ServerResponse } from 'node:http';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type TestServer, testServer } from '../../../test/support/test-server.ts';
import { openStandIn, type StandIn, upstreamsFrom } from '../../../test/support/upstream-servers.ts';

describe('texts that an upstream embeds', () => {
  let behave: (response: ServerResponse) => void = () => {};
  let far: TestServer;
  let near: TestServer;
  let upstream: StandIn;
  beforeAll(async () => {
    far = await testServer({ pool: { embedders: true } });
    upstream = await openStandIn((response) => behave(response));
    const named = { name: 'up', url: `${await far.listen()}/v1`, models: [{ name: 'embedder', as: 'far' }] };
    near = await testServer({
      pool: { embedders: true },
      upstreams: upstreamsFrom(
        named,
        { name: 'odd', url: upstream.url, models: ['odd'] },
        { name: 'ant', protocol: 'anthropic', url: upstream.url, models: ['ant'] },
      ),
    });
  });
  afterAll(async () => {
    await near.close();
    await far.close();
    upstream.close();
  });
  const post = (url: string, payload: object) => near.app.inject({ method: 'POST', url, payload });

  it.each([
    ['/v1/embeddings', { input: ['Hello there', 'Good day'] }],
    ['/v1/embeddings', { input: 'Hello', dimensions: 8, encoding_format: 'base64' }],
    ['/v1/embeddings', { input: [1, 2, 3] }],
    ['/api/embed', { input: ['Hello', 'you'] }],
    ['/api/embeddings', { prompt: 'Hello' }],
  ])('have by %s the vectors of the same model here: %j', async (url, body) => {
    const [here, there] = [
      await post(url, { ...body, model: 'embedder' }),
      await post(url, { ...body, model: 'far' }),
    ];
    expect(there.statusCode, there.body).toBe(200);
    expect(there.headers['x-chairlift-upstream']).toBe('up');
    const vectorsOf = (answer: typeof here) =>
      JSON.stringify(answer.json().data ?? answer.json().embeddings ?? answer.json().embedding);
    expect(numbers(vectorsOf(there))).toEqual(
      numbers(vectorsOf(here)).map((value) => expect.closeTo(value, 6)),
    );
    expect(there.json().usage).toEqual(here.json().usage);
  });

  it('are told of with the request', async () => {
    const answer = await post('/v1/embeddings', { model: 'far', input: 'Hello there' });
    const trace = (await near.app.inject({ url: `/requests/${answer.headers['x-request-id']}` })).json();
    expect(trace).toMatchObject({
      kind: 'embedding',
      upstream: { name: 'up', model: 'embedder' },
      promptTokens: 2,
    });
  });

  const vector = (index: number, ...embedding: unknown[]) => ({ index, embedding });
  const list = (...data: object[]) => JSON.stringify({ data, usage: { prompt_tokens: 5 } });

  it('have length 1, whatever the upstream sends, in the order of the texts', async () => {
    behave = (response) => void response.end(list(vector(1, 0, 2), vector(0, 3, 4)));
    const { data, usage } = (await post('/v1/embeddings', { model: 'odd', input: ['a', 'b'] })).json();
    expect(data.map(({ embedding }: { embedding: number[] }) => embedding)).toEqual([
      [expect.closeTo(0.6, 6), expect.closeTo(0.8, 6)],
      [0, 1],
    ]);
    expect(usage.prompt_tokens).toBe(5);
  });

  it.each([
    ['too few', list(vector(0, 1))],
    ['too many', list(vector(0, 1), vector(1, 1), vector(2, 1))],
    ['one twice', list(vector(0, 1), vector(0, 1))],
    ['texts', list(vector(0, 'x'), vector(1, 'y'))],
    ['of several lengths', list(vector(0, 1), vector(1, 1, 2))],
    ['none', '{}'],
    ['no JSON', 'sorry'],
  ])('are refused where they are %s', async (_, body) => {
    behave = (response) => void response.end(body);
    const answer = await post('/v1/embeddings', { model: 'odd', input: ['a', 'b'] });
    expect(answer.statusCode).toBe(502);
    expect(answer.json().error).toMatchObject({
      code: 'upstream_invalid_answer',
      message: /^the upstream 'odd' sent/,
    });
  });

  it('are not asked for where no upstream could give them', async () => {
    const cut = await post('/api/embed', { model: 'far', input: 'x', truncate: true });
    expect([cut.statusCode, cut.json().error]).toEqual([
      400,
      expect.stringMatching(/^truncate: cannot be carried/),
    ]);
    const none = await post('/v1/embeddings', { model: 'ant', input: 'x' });
    expect([none.statusCode, none.json().error.code]).toEqual([400, 'model_elsewhere']);
  });
});

function numbers(json: string): number[] {
  const bytes = (text: string) =>
    Array.from({ length: Buffer.from(text, 'base64').length / 4 }, (_, at) =>
      Buffer.from(text, 'base64').readFloatLE(4 * at),
    );
  const flat = (value: unknown): number[] => {
    if (typeof value === 'number') return [value];
    if (typeof value === 'string') return value === 'embedding' ? [] : bytes(value);
    return Object.values(value as object).flatMap(flat);
  };
  return flat(JSON.parse(json));
}
