// What a schema says is enforced, or refused by name: corners that random schemas do not reach.

import { describe, expect, it } from 'vitest';
import { rulesOf } from '../assemble.ts';
import { checkBytes } from '../check-text.ts';
import { compileRules } from '../compile.ts';
import type { Expression } from '../expression.ts';
import { GrammarError } from '../grammar-error.ts';

const tablesOf = (expression: Expression) => compileRules(rulesOf(expression, () => undefined).rules);
const accepts = (schema: unknown, text: string) =>
  checkBytes(tablesOf({ kind: 'schema', schema }), text).accepted;

function refusal(expression: Expression): string | undefined {
  try {
    tablesOf(expression);
    return undefined;
  } catch (error) {
    if (error instanceof GrammarError) return error.problem;
    throw error;
  }
}

describe('a schema', () => {
  it.each<readonly [string, unknown, string]>([
    ['an anyOf of itself', { anyOf: [{ $ref: '#' }, { type: 'string' }] }, 'malformed'],
    ['itself', { $ref: '#' }, 'malformed'],
    [
      'a circle of definitions for a listed value',
      {
        enum: [{ a: 1 }],
        properties: { a: { $ref: '#/$defs/a' } },
        $defs: { a: { allOf: [{ $ref: '#/$defs/b' }] }, b: { $ref: '#/$defs/a' } },
      },
      'malformed',
    ],
    ['itself denied', { not: { $ref: '#' } }, 'malformed'],
    ['what never holds', { type: 'string', not: { minLength: 0 } }, 'empty'],
    ['a number beyond all doubles', { const: JSON.parse('1e999') }, 'malformed'],
    ['one within a list', { enum: [{ a: [JSON.parse('-1e999')] }] }, 'malformed'],
    ['half a character', { enum: ['\ud800'] }, 'unsupported'],
    ['a property that is half a character', { properties: { '\udc00': {} } }, 'unsupported'],
    ['no type', { type: [] }, 'malformed'],
    ['bounds that exclude each other', { type: 'number', minimum: 2, maximum: 1 }, 'empty'],
    ['lengths that exclude each other', { type: 'string', minLength: 3, maxLength: 2 }, 'empty'],
  ])('of %s is refused', (_, schema, problem) => {
    expect(refusal({ kind: 'schema', schema })).toBe(problem);
  });

  it('follows references relative to the nearest $id', () => {
    const schema = {
      $id: 'https://example.org/root',
      properties: {
        a: { $id: 'a', $ref: '#/$defs/x', $defs: { x: { type: 'string' } } },
        b: { $ref: '#/$defs/x' },
        c: { $ref: 'https://example.org/a#/$defs/x' },
      },
      $defs: { x: { type: 'integer' } },
    };
    expect(accepts(schema, '{"a": "x", "b": 1, "c": "y"}')).toBe(true);
    expect(accepts(schema, '{"a": 1}')).toBe(false);
    expect(accepts(schema, '{"b": "x"}')).toBe(false);
    expect(accepts(schema, '{"c": 1}')).toBe(false);
  });

  it('may refer to one definition twice for the same value', () => {
    const twice = [{ $ref: '#/$defs/a' }, { $ref: '#/$defs/a' }];
    expect(accepts({ allOf: twice, $defs: { a: { type: 'integer' } } }, '7')).toBe(true);
  });

  it('knows names that every object of JavaScript has', () => {
    const schema = JSON.parse(
      '{"properties": {"__proto__": {"type": "integer"}}, "required": ["__proto__", "constructor"]}',
    );
    expect(accepts(schema, '{"__proto__": 1, "constructor": null}')).toBe(true);
    expect(accepts(schema, '{"__proto__": "a", "constructor": null}')).toBe(false);
    expect(accepts(schema, '{"constructor": null}')).toBe(false);
    expect(accepts({ $ref: '#/$defs/a', $defs: { a: { type: 'null' } } }, 'null')).toBe(true);
    expect(refusal({ kind: 'schema', schema: { $ref: '#/$defs/toString', $defs: {} } })).toBe('malformed');
  });

  it('does not allow a property twice, however its name is escaped', () => {
    const schema = { properties: { 'é"': { type: 'integer' } }, additionalProperties: { type: 'string' } };
    expect(accepts(schema, '{"\\u00e9\\"": 1, "e": "x"}')).toBe(true);
    for (const name of ['é\\"', '\\u00e9\\"', '\\u00E9\\u0022'])
      expect(accepts(schema, `{"é\\"": 1, "${name}": "x"}`), name).toBe(false);
  });

  it('allows no host with a longer name than hosts can have', () => {
    const label = 'a'.repeat(63);
    const host = (length: number) => `"${`${label}.${label}.${label}.${label}`.slice(0, length)}"`;
    expect(accepts({ type: 'string', format: 'hostname' }, host(191))).toBe(true);
    expect(accepts({ type: 'string', format: 'hostname' }, host(255))).toBe(false);
  });

  it('leads nowhere from where a text of its length cannot end', () => {
    const schema = { type: 'string', pattern: '^(ab)+cde$', maxLength: 70 };
    const pairs = (count: number) => 'ab'.repeat(count);
    expect(accepts(schema, `"${pairs(33)}cde"`)).toBe(true);
    // After the 33rd pair there is room for `cde` and no other pair.
    const verdict = checkBytes(tablesOf({ kind: 'schema', schema }), `"${pairs(34)}cde"`);
    expect(verdict).toMatchObject({ accepted: false, at: 1 + 66 });
    expect(refusal({ kind: 'schema', schema: { ...schema, pattern: '^a{71}b*$' } })).toBe('empty');
    expect(refusal({ kind: 'schema', schema: { ...schema, minLength: 71 } })).toBe('empty');
  });

  it('may say what tells its alternatives apart', () => {
    const kind = (name: string) => ({
      type: 'object',
      properties: { kind: { const: name } },
      required: ['kind'],
    });
    const schema = { oneOf: [kind('cat'), kind('dog')], discriminator: { propertyName: 'kind' } };
    expect(accepts(schema, '{"kind": "dog"}')).toBe(true);
    expect(accepts(schema, '{"kind": "cow"}')).toBe(false);
  });
});

describe('a text', () => {
  it.each([
    ['of a choice', { kind: 'choice', options: [{ kind: 'text', text: 'a\ud800' }] }],
    ['of a grammar', { kind: 'grammar', text: 'root ::= "\\uD800"' }],
  ] as const)('%s that is half a character is refused', (_, expression) => {
    expect(refusal(expression)).toBe('malformed');
  });
});
