// Every keyword that is enforced, with documents that it allows and documents that it does not; and every one that is
// not enforced is refused by name.

import { readFileSync } from 'node:fs';
import { Ajv2020 } from 'ajv/dist/2020.js';
import addFormats from 'ajv-formats';
import { describe, expect, it } from 'vitest';
import { rulesOf } from '../assemble.ts';
import { checkBytes } from '../check-text.ts';
import { compileRules } from '../compile.ts';
import { GrammarError } from '../grammar-error.ts';
import type { GrammarTables } from '../tables.ts';
import { enforcedKeywords } from './schema-document.ts';
import { formats } from './strings.ts';

interface Case {
  readonly schema: unknown;
  readonly valid: readonly unknown[];
  readonly invalid: readonly unknown[];
}

const node = {
  type: 'object',
  properties: { next: { anyOf: [{ $ref: '#/$defs/node' }, { type: 'null' }] } },
  required: ['next'],
};

const cases: Readonly<Record<string, readonly Case[]>> = {
  $ref: [
    {
      schema: { $ref: '#/$defs/node', $defs: { node } },
      valid: [{ next: { next: null } }],
      invalid: [{}, { next: 1 }],
    },
    { schema: { $ref: '#n', $defs: { x: { $anchor: 'n', type: 'null' } } }, valid: [null], invalid: [1] },
    {
      schema: { $ref: '#/$defs/a~1b', minimum: 3, $defs: { 'a/b': { type: 'integer' } } },
      valid: [3],
      invalid: [2, 'x'],
    },
  ],
  type: [
    { schema: { type: 'integer' }, valid: [0, -7, 1e21], invalid: [1.5, '1', null, true] },
    { schema: { type: ['string', 'null'] }, valid: ['', null], invalid: [0, false, [], {}] },
  ],
  enum: [
    {
      schema: { enum: ['a', 'b"\n', 7, null, { x: [1] }] },
      valid: ['a', 'b"\n', 7, null, { x: [1] }],
      invalid: ['c', 8, {}, 'ab'],
    },
  ],
  const: [
    { schema: { const: 'é😀' }, valid: ['é😀'], invalid: ['é', null] },
    { schema: { const: null }, valid: [null], invalid: [0] },
  ],
  allOf: [
    {
      schema: { allOf: [{ minimum: 2 }, { type: 'integer', maximum: 4 }] },
      valid: [2, 4],
      invalid: [1, 5, 2.5],
    },
  ],
  anyOf: [
    { schema: { anyOf: [{ type: 'string' }, { type: 'integer' }] }, valid: ['x', 3], invalid: [1.5, null] },
  ],
  oneOf: [
    {
      schema: {
        oneOf: [
          { type: 'object', properties: { kind: { const: 'a' } }, required: ['kind'] },
          { type: 'object', properties: { kind: { const: 'b' } }, required: ['kind'] },
        ],
      },
      valid: [{ kind: 'a' }, { kind: 'b' }],
      invalid: [{ kind: 'c' }, {}],
    },
  ],
  properties: [
    {
      schema: { type: 'object', properties: { a: { type: 'null' } } },
      valid: [{}, { a: null }, { b: 1 }],
      invalid: [{ a: 1 }],
    },
  ],
  patternProperties: [
    {
      schema: {
        type: 'object',
        patternProperties: { '^n': { type: 'integer' } },
        additionalProperties: { type: 'string' },
      },
      valid: [{}, { n1: 4, x: 'y' }],
      invalid: [{ n1: 'x' }, { x: 1 }],
    },
  ],
  additionalProperties: [
    {
      schema: { type: 'object', properties: { a: {} }, additionalProperties: false },
      valid: [{}, { a: 1 }],
      invalid: [{ b: 1 }],
    },
    {
      schema: {
        type: 'object',
        properties: { a: { type: 'string' } },
        additionalProperties: { type: 'integer' },
      },
      valid: [{ a: 'x', b: 1 }],
      invalid: [{ b: 'x' }],
    },
  ],
  propertyNames: [
    {
      schema: { type: 'object', propertyNames: { maxLength: 2 } },
      valid: [{ ab: 1 }],
      invalid: [{ abc: 1 }],
    },
  ],
  required: [
    {
      schema: { type: 'object', properties: { a: {} }, required: ['a', 'z'] },
      valid: [{ a: 1, z: 2 }],
      invalid: [{ a: 1 }, {}],
    },
  ],
  minProperties: [
    {
      schema: {
        type: 'object',
        properties: { a: {}, b: {}, c: {} },
        additionalProperties: false,
        minProperties: 2,
      },
      valid: [{ a: 1, c: 2 }],
      invalid: [{}, { b: 1 }],
    },
  ],
  maxProperties: [
    { schema: { type: 'object', maxProperties: 1 }, valid: [{}, { a: 1 }], invalid: [{ a: 1, b: 2 }] },
  ],
  prefixItems: [
    {
      schema: { type: 'array', prefixItems: [{ type: 'string' }, { type: 'null' }] },
      valid: [[], ['x'], ['x', null, 7]],
      invalid: [[1], ['x', 1]],
    },
  ],
  items: [
    { schema: { type: 'array', items: { type: 'boolean' } }, valid: [[], [true, false]], invalid: [[1]] },
    { schema: { type: 'array', prefixItems: [{}], items: false }, valid: [[], [1]], invalid: [[1, 2]] },
  ],
  minItems: [
    {
      schema: { type: 'array', minItems: 2 },
      valid: [
        [1, 2],
        [1, 2, 3],
      ],
      invalid: [[], [1]],
    },
  ],
  maxItems: [{ schema: { type: 'array', maxItems: 2 }, valid: [[], [1, 2]], invalid: [[1, 2, 3]] }],
  uniqueItems: [
    { schema: { type: 'array', uniqueItems: false }, valid: [[1, 1]], invalid: [1] },
    {
      schema: { type: 'array', uniqueItems: true, maxItems: 1 },
      valid: [[], [1]],
      invalid: [
        [1, 1],
        [1, 2],
      ],
    },
  ],
  minLength: [
    { schema: { type: 'string', minLength: 2 }, valid: ['ab', '😀é', 'a"b'], invalid: ['', 'a', '😀'] },
  ],
  maxLength: [
    { schema: { type: 'string', maxLength: 2 }, valid: ['', 'ab', '😀\n'], invalid: ['abc', '😀😀😀'] },
    // As Pydantic writes HttpUrl.
    {
      schema: { type: 'string', format: 'uri', minLength: 1, maxLength: 2083 },
      valid: ['https://a.org/', `https://a.org/${'x'.repeat(2069)}`],
      invalid: [`https://a.org/${'x'.repeat(2070)}`, 'a.org', ''],
    },
    {
      schema: { type: 'string', pattern: '^[aé"]*😀$', minLength: 3, maxLength: 80 },
      valid: ['aa😀', `${'é"'.repeat(39)}a😀`],
      invalid: ['a😀', `${'é"'.repeat(40)}😀`, 'aaa'],
    },
  ],
  pattern: [
    { schema: { type: 'string', pattern: '^[a-c]+\\d?$' }, valid: ['abc', 'a1'], invalid: ['', 'd', 'a12'] },
  ],
  format: Object.keys(formats).map((format) => ({
    schema: { type: 'string', format },
    ...formatExamples(format),
  })),
  minimum: [
    { schema: { type: 'number', minimum: -1.5 }, valid: [-1.5, 0, 1e300], invalid: [-1.6, -1e-300 - 2] },
  ],
  maximum: [
    { schema: { type: 'number', maximum: 0.3 }, valid: [0.3, -5, 1e-7], invalid: [0.31, 0.1 + 0.2, 1e21] },
  ],
  exclusiveMinimum: [
    { schema: { type: 'number', exclusiveMinimum: 0 }, valid: [5e-324, 1], invalid: [0, -1] },
  ],
  exclusiveMaximum: [
    { schema: { type: 'integer', exclusiveMaximum: 10 }, valid: [9, -3], invalid: [10, 11] },
  ],
  multipleOf: [{ schema: { type: 'integer', multipleOf: 7 }, valid: [0, 7, -14, 700], invalid: [1, 8] }],
};

function formatExamples(format: string): Omit<Case, 'schema'> {
  const examples: Readonly<Record<string, readonly [string[], string[]]>> = {
    date: [
      ['2024-02-29', '1999-12-31'],
      ['2023-02-29', '2024-13-01', '2024-1-1'],
    ],
    time: [
      ['23:59:59Z', '00:00:00.25+05:30'],
      ['24:00:00Z', '10:00'],
    ],
    'date-time': [['2024-02-29T10:00:00Z'], ['2024-02-30T10:00:00Z', '2024-02-29']],
    duration: [
      ['P1D', 'PT5M', 'P2Y3M', 'P3W', 'P1DT2H'],
      ['P', '1D', 'PT'],
    ],
    uuid: [['123e4567-e89b-12d3-a456-426614174000'], ['123e4567', '123e4567-e89b-12d3-a456-42661417400g']],
    email: [['a.b@example.org'], ['a@', 'example.org', 'a..b@x.org']],
    hostname: [
      ['example.org', 'a-b.c', 'a.b.c.d.e.f'],
      ['-x', 'a_b', 'x-'],
    ],
    ipv4: [
      ['127.0.0.1', '255.255.255.255'],
      ['256.1.1.1', '1.2.3'],
    ],
    ipv6: [
      ['::1', '2001:db8::8a2e:370:7334', '::'],
      ['1::2::3', '12345::', ':1'],
    ],
    uri: [
      [
        'https://example.org/a/b?c=d#e',
        'ftp://u:p@x.org:21',
        'mailto:a@b.org',
        'urn:isbn:12',
        'http://[::1]/',
      ],
      ['example.org', 'http://a b', '//x'],
    ],
  };
  const [valid, invalid] = examples[format] ?? [[], []];
  return { valid, invalid };
}

function compiled(schema: unknown): GrammarTables {
  return compileRules(rulesOf({ kind: 'schema', schema }, () => undefined).rules);
}

const ajv = new Ajv2020({ strict: false });
addFormats.default(ajv);

describe('a keyword that is enforced', () => {
  it.each(Object.keys(enforcedKeywords))('%s allows what is valid and nothing else', (keyword) => {
    const own = cases[keyword] ?? [];
    expect(own.length).toBeGreaterThan(0);
    for (const { schema, valid, invalid } of own) {
      expect(JSON.stringify(schema)).toContain(`"${keyword}"`);
      const judge = ajv.compile(schema as object);
      const tables = compiled(schema);
      for (const [documents, expected] of [
        [valid, true],
        [invalid, false],
      ] as const) {
        expect(documents.length).toBeGreaterThan(0);
        for (const document of documents) {
          const where = `${JSON.stringify(schema)} and ${JSON.stringify(document)}`;
          expect(judge(document), `the other validator: ${where}`).toBe(expected);
          expect(checkBytes(tables, JSON.stringify(document)).accepted, where).toBe(expected);
        }
      }
    }
  });

  it('is named in the documentation, and so is every format', () => {
    const page = readFileSync(new URL('../../../docs/structured-output.md', import.meta.url), 'utf8');
    for (const name of [...Object.keys(enforcedKeywords), ...Object.keys(formats)])
      expect(page).toContain(`\`${name}\``);
  });
});

describe('a keyword that is not enforced', () => {
  it.each([
    ['not', { not: { type: 'string' } }],
    ['if', { if: { minimum: 1 }, else: { maximum: 3 } }],
    ['dependentRequired', { dependentRequired: { a: ['b'] } }],
    ['dependentSchemas', { dependentSchemas: { a: {} } }],
    ['dependencies', { dependencies: { a: ['b'] } }],
    ['contains', { type: 'array', contains: { const: 1 } }],
    ['uniqueItems', { type: 'array', uniqueItems: true }],
    ['unevaluatedProperties', { type: 'object', unevaluatedProperties: false }],
    ['unevaluatedItems', { type: 'array', unevaluatedItems: false }],
    ['additionalItems', { type: 'array', additionalItems: false }],
    ['$dynamicRef', { $dynamicRef: '#x' }],
    ['nullable', { type: 'string', nullable: true }],
    ['madeUp', { madeUp: 1 }],
    ['format', { type: 'string', format: 'made-up' }],
    ['multipleOf', { type: 'number', multipleOf: 0.01 }],
    ['oneOf', { oneOf: [{ type: 'number' }, { type: 'integer' }] }],
    ['minProperties', { type: 'object', minProperties: 3 }],
    ['$ref', { $ref: 'https://example.org/schema' }],
  ])('is refused by its name: %s', (keyword, inner) => {
    for (const schema of [inner, { type: 'object', properties: { deep: { items: inner } } }]) {
      expect(() => compiled(schema)).toThrow(GrammarError);
      try {
        compiled(schema);
      } catch (error) {
        expect((error as GrammarError).keyword).toBe(keyword);
      }
    }
  });

  it.each([
    [{ type: 'made-up' }],
    [{ minLength: -1 }],
    [{ properties: [] }],
    [{ required: 'a' }],
    [7],
    [{ pattern: '(' }],
    [{ $ref: '#/nowhere' }],
  ])('or malformed is refused: %j', (schema) => {
    expect(() => compiled(schema)).toThrow(GrammarError);
  });
});
