import { describe, expect, it } from 'vitest';
import { grammarFormat, onlyResponseFormat, regexFormat, schemaFormat } from './response-format.ts';

describe('formats asked for under several names', () => {
  const schema = { type: 'object', properties: { a: { type: 'integer' } } };

  it('are one where they are equal, as text and as an object', () => {
    const first = schemaFormat('response_format', schema, false);
    const asked = [undefined, first, schemaFormat('guided_json', JSON.stringify(schema), false)];
    expect(onlyResponseFormat(asked)).toBe(first);
    expect(onlyResponseFormat([grammarFormat('grammar', 'root ::= "a"')])?.name).toBe('grammar');
    expect(onlyResponseFormat([undefined])).toBeUndefined();
  });

  it('are refused by name where they differ', () => {
    const first = regexFormat('regex', 'a');
    expect(() =>
      onlyResponseFormat([first, regexFormat('guided_regex', 'a'), grammarFormat('grammar', 'a')]),
    ).toThrow('contradicts regex');
    expect(() =>
      onlyResponseFormat([
        schemaFormat('json_schema', schema, true),
        schemaFormat('x', { ...schema, title: 'T' }, true),
      ]),
    ).toThrow('contradicts json_schema');
  });
});
