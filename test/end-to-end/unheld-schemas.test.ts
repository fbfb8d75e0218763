// Schemas that cannot be held token by token: refused where they are strict, else answered, checked and flagged, by every
// protocol.

import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type TestServer, testServer } from '../support/test-server.ts';

let server: TestServer;
let url: string;
beforeAll(async () => {
  server = await testServer();
  url = await server.listen();
});
afterAll(() => server.close());

/** Lists of two texts that must differ, of which each can be one only: so what is written is known. */
const pair = (first: string, second: string) => ({
  type: 'array',
  prefixItems: [first, second].map((text) => ({ type: 'string', pattern: `^${text}$` })),
  minItems: 2,
  maxItems: 2,
  uniqueItems: true,
});
const [equal, different] = [pair('a', 'a'), pair('a', 'b')];
const elsewhere = { type: 'integer', minimum: 1, maximum: 3, $ref: 'https://example.org/schema' };
const messages = [{ role: 'user', content: 'Hello' }];

async function post(path: string, body: object) {
  const response = await fetch(`${url}${path}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ model: 'demo', temperature: 0, ...body }),
  });
  const warning = response.headers.get('x-chairlift-warning');
  return { status: response.status, warning, text: await response.text() };
}

const chat = (schema: object, more: object = {}, strict = false) =>
  post('/v1/chat/completions', {
    messages,
    response_format: { type: 'json_schema', json_schema: { name: 'n', schema, strict } },
    ...more,
  });

describe('a schema that cannot be held token by token', () => {
  it('is refused by name where it is strict', async () => {
    const { status, text } = await chat(equal, {}, true);
    expect(status).toBe(400);
    expect(JSON.parse(text).error).toMatchObject({ code: 'invalid_grammar', param: 'response_format' });
    expect(text).toContain('uniqueItems');
  });

  it.each([
    ['is not valid', equal, '["a","a"]', false],
    ['is valid', different, '["a","b"]', true],
  ] as const)('else is checked: an answer that %s', async (_, schema, content, expected) => {
    const { status, warning, text } = await chat(schema);
    expect(status).toBe(200);
    expect(warning).toContain("not enforced: 'uniqueItems'");
    const [choice] = JSON.parse(text).choices;
    expect({ ...choice, content: JSON.stringify(JSON.parse(choice.message.content)) }).toMatchObject({
      content,
      finish_reason: 'stop',
      schema_valid: expected,
    });
  });

  it('says null where it cannot be known', async () => {
    const { warning, text } = await chat(elsewhere);
    expect(warning).toContain("'$ref'");
    expect(JSON.parse(text).choices[0]).toMatchObject({ schema_valid: null });
  });

  it('flags each choice, and the last chunk of a stream', async () => {
    const { text } = await chat(equal, { n: 2, stream: true });
    const chunks = text
      .split('\n\n')
      .filter((line) => line.startsWith('data: {'))
      .flatMap(
        (line) => JSON.parse(line.slice(6)).choices as { index: number; finish_reason: string | null }[],
      );
    for (const index of [0, 1]) {
      const own = chunks.filter((chunk) => chunk.index === index);
      expect(own.at(-1)).toMatchObject({ finish_reason: 'stop', schema_valid: false });
      for (const chunk of own.slice(0, -1)) expect(chunk).not.toHaveProperty('schema_valid');
    }
  });

  it('does not flag an answer that was cut short, nor one whose schema is enforced', async () => {
    const cut = JSON.parse((await chat(equal, { max_tokens: 1 })).text).choices[0];
    expect(cut).toMatchObject({ finish_reason: 'length' });
    expect(cut).not.toHaveProperty('schema_valid');
    const { warning, text } = await chat({ enum: [1, 2] });
    expect(warning).toBeNull();
    expect(JSON.parse(text).choices[0]).not.toHaveProperty('schema_valid');
  });

  it('is told by every protocol', async () => {
    const format = { type: 'json_schema', name: 'n', schema: equal };
    const of = async (path: string, body: object) => JSON.parse((await post(path, body)).text);
    expect((await of('/v1/completions', { prompt: 'a', guided_json: equal })).choices[0]).toMatchObject({
      schema_valid: false,
    });
    expect(await of('/v1/responses', { input: 'a', text: { format } })).toMatchObject({
      schema_valid: false,
    });
    const message = {
      messages,
      max_tokens: 400,
      output_config: { format: { type: 'json_schema', schema: equal } },
    };
    expect(await of('/v1/messages', message)).toMatchObject({ schema_valid: false });
    expect(await of('/api/chat', { messages, stream: false, format: equal })).toMatchObject({
      done: true,
      schema_valid: false,
    });
  });

  it('may be that of a function: its arguments are checked', async () => {
    const tool = (strict: boolean) => ({
      type: 'function',
      function: {
        name: 'f',
        strict,
        parameters: {
          type: 'object',
          properties: { a: equal },
          required: ['a'],
          additionalProperties: false,
        },
      },
    });
    const named = { tool_choice: { type: 'function', function: { name: 'f' } } };
    const asked = { messages, ...named };
    const loose = await post('/v1/chat/completions', { ...asked, tools: [tool(false)] });
    expect(loose.warning).toContain("not enforced: 'uniqueItems'");
    expect(JSON.parse(loose.text).choices[0]).toMatchObject({
      finish_reason: 'tool_calls',
      schema_valid: false,
    });
    expect((await post('/v1/chat/completions', { ...asked, tools: [tool(true)] })).status).toBe(400);
  });

  it('names unknown keywords, which are no reason for a check', async () => {
    const { status, warning, text } = await chat({ enum: [1, 2], enumNames: ['one', 'two'] }, {}, true);
    expect(status).toBe(200);
    expect(warning).toContain("unknown in the schema: 'enumNames'");
    expect(JSON.parse(text).choices[0]).not.toHaveProperty('schema_valid');
  });
});
