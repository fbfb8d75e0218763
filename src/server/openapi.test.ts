import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type TestServer, testServer } from '../../test/support/test-server.ts';
import { pathOf } from './openapi.ts';
import { requestExamples } from './request-examples.ts';

interface Document {
  readonly paths: Record<
    string,
    Record<string, { requestBody?: { content: Record<string, { schema: Schema; example?: object }> } }>
  >;
}

interface Schema {
  readonly properties: Record<string, { minimum?: number; maximum?: number; description?: string }>;
  readonly required: readonly string[];
}

/** Registered, and not for programs: pages, the document itself, and what only says that it is not supported. */
const undocumented = [
  'GET /',
  'GET /assets/{id}',
  'GET /docs',
  'GET /openapi.json',
  'POST /api/create',
  'POST /api/blobs/{digest}',
  'POST /api/push',
  'POST /api/copy',
];

let server: TestServer;
const registered: string[] = [];
beforeAll(async () => {
  server = await testServer();
  server.app.addHook('onRoute', ({ method, url }) => {
    // HEAD comes with GET.
    if (method !== 'HEAD') registered.push(`${method} ${pathOf(url)}`);
  });
  await server.app.ready();
});
afterAll(() => server.close());

describe('the documentation', () => {
  it('lists the routes that exist, and no other', async () => {
    const { paths } = (await server.app.inject({ url: '/openapi.json' })).json<Document>();
    const documented = Object.entries(paths).flatMap(([path, methods]) =>
      Object.keys(methods).map((method) => `${method.toUpperCase()} ${path}`),
    );
    const withoutPrefix = documented.map((route) => route.replace(' /v1/', ' /'));
    expect(new Set(registered)).toEqual(new Set([...documented, ...withoutPrefix, ...undocumented]));
  });

  it('says what a chat takes, from the schema it is checked with', async () => {
    const { paths } = (await server.app.inject({ url: '/openapi.json' })).json<Document>();
    const schema = paths['/v1/chat/completions']?.post?.requestBody?.content['application/json']?.schema;
    expect(schema?.required).toEqual(['messages']);
    expect(schema?.properties.temperature).toMatchObject({ minimum: 0, maximum: 100 });
    for (const name of ['top_k', 'min_p', 'typical_p', 'stop', 'seed', 'logit_bias', 'stream_options']) {
      expect(schema?.properties).toHaveProperty(name);
    }
  });

  it("says what Anthropic's messages take", async () => {
    const { paths } = (await server.app.inject({ url: '/openapi.json' })).json<Document>();
    const schema = paths['/v1/messages']?.post?.requestBody?.content['application/json']?.schema;
    expect(schema?.required).toEqual(['max_tokens', 'messages']);
    for (const name of ['system', 'tools', 'tool_choice', 'thinking', 'stop_sequences', 'output_config']) {
      expect(schema?.properties).toHaveProperty(name);
    }
    expect(schema?.properties.system).toMatchObject({ description: 'A text, or blocks of type text.' });
  });

  it('has examples of routes that exist, which work as they stand', async () => {
    const { paths } = (await server.app.inject({ url: '/openapi.json' })).json<Document>();
    const refused = new Map<string, string>();
    for (const [url, payload] of Object.entries(requestExamples)) {
      expect(paths[url]?.post?.requestBody?.content['application/json']?.example).toEqual(payload);
      const { statusCode, body } = await server.app.inject({ method: 'POST', url, payload });
      if (statusCode !== 200) refused.set(url, body);
    }
    // What the embedded model was not made for.
    for (const [url, body] of refused) expect(body, url).toMatch(/model_not_capable|fill a gap|no tokens/);
    expect([...refused.keys()]).not.toContain('/v1/chat/completions');
  });
});
