import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type TestServer, testServer } from '../../test/support/test-server.ts';

interface Document {
  readonly paths: Record<
    string,
    Record<string, { requestBody?: { content: Record<string, { schema: Schema }> } }>
  >;
}

interface Schema {
  readonly properties: Record<string, { minimum?: number; maximum?: number; description?: string }>;
  readonly required: readonly string[];
}

let server: TestServer;
beforeAll(async () => {
  server = await testServer();
  await server.app.ready();
});
afterAll(() => server.close());

describe('the documentation', () => {
  it('lists routes that exist', async () => {
    const { paths } = (await server.app.inject({ url: '/openapi.json' })).json<Document>();
    expect(Object.keys(paths).length).toBeGreaterThan(15);
    for (const [path, methods] of Object.entries(paths)) {
      const url = path.replace('/v1/models/{id}', '/v1/models/*').replace('{id}', ':id');
      for (const method of Object.keys(methods)) {
        const known = server.app.hasRoute({ method: method.toUpperCase() as 'GET', url });
        expect(known, `${method} ${path}`).toBe(true);
      }
    }
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

  it('has a page that needs nothing from elsewhere', async () => {
    const { body, headers } = await server.app.inject({ url: '/docs' });
    expect(headers['content-type']).toContain('text/html');
    expect(body).not.toMatch(/https?:\/\//);
    expect(body).toContain("fetch('openapi.json')");
  });
});
