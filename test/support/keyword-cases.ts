// biome-ignore-all lint/suspicious/noThenProperty: a keyword of JSON Schema
// Every keyword that is enforced, with values that it allows and values that it does not.

import { formats } from '../../src/grammar/json/strings.ts';

export interface KeywordCase {
  readonly schema: unknown;
  readonly valid: readonly unknown[];
  readonly invalid: readonly unknown[];
  /** Where the keyword is of an older one. */
  readonly draft?: 7 | 2019;
}

const node = {
  type: 'object',
  properties: { next: { anyOf: [{ $ref: '#/$defs/node' }, { type: 'null' }] } },
  required: ['next'],
};

export const keywordCases: Readonly<Record<string, readonly KeywordCase[]>> = {
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
    // Schemas that a value may be valid against at the same time.
    {
      schema: { oneOf: [{ type: 'number' }, { type: 'integer' }] },
      valid: [1.5, -0.25],
      invalid: [1, 0, '1'],
    },
    {
      schema: {
        oneOf: [
          { multipleOf: 3, type: 'integer' },
          { multipleOf: 5, type: 'integer' },
        ],
      },
      valid: [3, 5, -10, 21],
      invalid: [15, 0, 7, -30],
    },
    {
      schema: {
        type: 'object',
        oneOf: [{ required: ['a'] }, { required: ['b'] }],
        properties: { a: {}, b: {} },
      },
      valid: [{ a: 1 }, { b: 1 }, { a: 1, c: 2 }],
      invalid: [{}, { a: 1, b: 2 }, { c: 1 }],
    },
  ],
  not: [
    {
      schema: { not: { type: ['string', 'integer'] } },
      valid: [null, true, 1.5, [], {}],
      invalid: ['', 'a', 3, -1],
    },
    {
      schema: { type: 'string', not: { enum: ['a', 'ab', 7, null] } },
      valid: ['', 'b', 'abc', 'aa'],
      invalid: ['a', 'ab', 7],
    },
    { schema: { type: 'number', not: { const: 0.5 } }, valid: [0.4, 0.51, 5, 1e21], invalid: [0.5, '0.5'] },
    { schema: { type: 'integer', not: { enum: [0, 3] } }, valid: [1, -3, 4, 33], invalid: [0, 3] },
    {
      schema: { not: { const: { a: [1, { b: 2 }] } } },
      valid: [{}, { a: [1, { b: 3 }] }, { a: [1] }],
      invalid: [{ a: [1, { b: 2 }] }],
    },
    {
      schema: { type: 'object', properties: { a: { type: 'string' } }, not: { required: ['a'] } },
      valid: [{}, { b: 1 }],
      invalid: [{ a: 'x' }, { a: 1 }],
    },
    {
      schema: { type: 'object', not: { properties: { a: { type: 'integer' } } } },
      valid: [{ a: 'x' }, { a: null, b: 1 }],
      invalid: [{}, { a: 1 }, { b: 1 }],
    },
    {
      schema: {
        type: 'object',
        properties: { a: {} },
        not: { properties: { a: {} }, additionalProperties: false },
      },
      valid: [{ b: 1 }, { a: 1, b: 2, c: 3 }],
      invalid: [{}, { a: 1 }],
    },
    {
      schema: { type: 'object', not: { patternProperties: { '^n': { type: 'integer' } } } },
      valid: [{ n: 'x' }, { a: 1, n: null }],
      invalid: [{}, { n: 1 }, { a: 'x' }],
    },
    {
      schema: { type: 'object', not: { propertyNames: { maxLength: 1 } } },
      valid: [{ ab: 1 }, { a: 1, bc: 1 }],
      invalid: [{}, { a: 1 }],
    },
    {
      schema: { type: 'array', not: { items: { type: 'integer' } } },
      valid: [['x'], [1, null]],
      invalid: [[], [1, 2]],
    },
    {
      schema: { type: 'array', not: { prefixItems: [{ type: 'integer' }], items: { type: 'string' } } },
      valid: [['x'], [1, 2], [1, 'x', 3]],
      invalid: [[], [1], [1, 'x']],
    },
    { schema: { type: 'string', not: { pattern: '^a+$' } }, valid: ['', 'ab', 'b'], invalid: ['a', 'aa'] },
    {
      schema: { type: 'string', not: { format: 'date' } },
      valid: ['', '2023-02-29'],
      invalid: ['2024-02-29'],
    },
    { schema: { type: 'number', not: { multipleOf: 0.5 } }, valid: [0.25, 7.1], invalid: [0.5, 3, 0, -1.5] },
    { schema: { type: 'string', not: { minLength: 2 } }, valid: ['', 'a'], invalid: ['ab', 'abc'] },
    { schema: { type: 'integer', not: { minimum: 3 } }, valid: [2, -9], invalid: [3, 4] },
    {
      schema: {
        not: { anyOf: [{ type: 'object' }, { minimum: 3 }, { not: { type: ['number', 'object'] } }] },
      },
      valid: [2, 0.5],
      invalid: [3, {}, 'x'],
    },
    {
      schema: { type: 'array', not: { contains: { const: 1 } } },
      valid: [[], [2, 3]],
      invalid: [[1], [2, 1]],
    },
    {
      schema: { not: { $ref: '#/$defs/a' }, $defs: { a: { type: 'object', required: ['x'] } } },
      valid: [{}, 1],
      invalid: [{ x: 1 }],
    },
  ],
  if: [
    {
      schema: {
        type: 'object',
        properties: { kind: { enum: ['card', 'cash'] }, number: { type: 'string' } },
        required: ['kind'],
        if: { properties: { kind: { const: 'card' } } },
        then: { required: ['number'] },
        else: { properties: { number: false } },
      },
      valid: [{ kind: 'card', number: '1' }, { kind: 'cash' }],
      invalid: [{ kind: 'card' }, { kind: 'cash', number: '1' }, { kind: 'x' }],
    },
  ],
  then: [
    {
      schema: { type: 'integer', if: { minimum: 10 }, then: { multipleOf: 5 } },
      valid: [3, 10, 15],
      invalid: [11, 12],
    },
    { schema: { then: { type: 'null' } }, valid: [1], invalid: [] },
  ],
  else: [{ schema: { if: { type: 'string' }, else: { const: 7 } }, valid: ['x', 7], invalid: [8, null] }],
  dependentRequired: [
    {
      schema: {
        type: 'object',
        properties: { card: {}, street: {} },
        dependentRequired: { card: ['street', 'zip'] },
      },
      valid: [{}, { street: 1 }, { card: 1, street: 2, zip: 3 }],
      invalid: [{ card: 1 }, { card: 1, street: 2 }],
    },
  ],
  dependentSchemas: [
    {
      schema: {
        type: 'object',
        properties: { a: {}, b: {} },
        dependentSchemas: { a: { properties: { b: { type: 'integer' } } } },
      },
      valid: [{}, { b: 'x' }, { a: 1, b: 2 }, { a: 1 }],
      invalid: [{ a: 1, b: 'x' }],
    },
  ],
  dependencies: [
    {
      schema: { type: 'object', dependencies: { a: ['b'], c: { required: ['d'] } } },
      valid: [{}, { b: 1 }, { a: 1, b: 1 }, { c: 1, d: 1 }],
      invalid: [{ a: 1 }, { c: 1 }],
      draft: 7,
    },
  ],
  nullable: [
    { schema: { type: 'string', nullable: true }, valid: ['x', null], invalid: [1] },
    { schema: { type: 'string', nullable: false }, valid: ['x'], invalid: [null] },
  ],
  $dynamicRef: [
    {
      schema: {
        $dynamicAnchor: 'node',
        type: 'object',
        properties: { next: { $dynamicRef: '#node' } },
        additionalProperties: false,
      },
      valid: [{}, { next: { next: {} } }],
      invalid: [{ next: 1 }, { next: { other: 1 } }],
    },
  ],
  $recursiveRef: [
    {
      schema: { type: 'object', properties: { next: { $recursiveRef: '#' } }, additionalProperties: false },
      valid: [{}, { next: { next: {} } }],
      invalid: [{ next: 1 }],
      draft: 2019,
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
  additionalItems: [
    {
      schema: { type: 'array', items: [{ type: 'string' }], additionalItems: { type: 'integer' } },
      valid: [[], ['x'], ['x', 1]],
      invalid: [[1], ['x', 'y']],
      draft: 7,
    },
  ],
  contains: [
    {
      schema: { type: 'array', items: { type: 'integer' }, contains: { minimum: 5 } },
      valid: [[5], [1, 7, 2], [6, 7]],
      invalid: [[], [1, 2], ['x', 7]],
    },
    {
      schema: { type: 'array', allOf: [{ contains: { const: 1 } }, { contains: { const: 2 } }], maxItems: 3 },
      valid: [
        [1, 2],
        [2, 'x', 1],
      ],
      invalid: [[1], [2, 2], [1, 3, 4, 2]],
    },
  ],
  minContains: [
    {
      schema: { type: 'array', contains: { type: 'string' }, minContains: 2 },
      valid: [
        ['a', 'b'],
        [1, 'a', 2, 'b', 'c'],
      ],
      invalid: [['a'], [1, 'a']],
    },
    {
      schema: { type: 'array', contains: { type: 'string' }, minContains: 0 },
      valid: [[], [1]],
      invalid: ['x'],
    },
  ],
  maxContains: [
    {
      schema: { type: 'array', contains: { type: 'string' }, maxContains: 1 },
      valid: [['a'], [1, 'a', 2]],
      invalid: [[], ['a', 'b'], [1]],
    },
  ],
  unevaluatedItems: [
    {
      schema: {
        type: 'array',
        anyOf: [{ prefixItems: [{ type: 'string' }] }, { prefixItems: [true, { type: 'integer' }] }],
        unevaluatedItems: false,
      },
      valid: [[], ['a'], [null, 1], ['a', 1]],
      invalid: [
        ['a', 'b'],
        ['a', 1, 2],
      ],
    },
  ],
  unevaluatedProperties: [
    {
      schema: {
        type: 'object',
        properties: { a: {} },
        allOf: [{ $ref: '#/$defs/base' }],
        anyOf: [{ properties: { b: { type: 'integer' } }, required: ['b'] }, { properties: { c: {} } }],
        unevaluatedProperties: false,
        $defs: { base: { properties: { base: {} } } },
      },
      valid: [{}, { a: 1, base: 2, b: 3, c: 4 }, { c: 1 }],
      invalid: [{ d: 1 }, { b: 'x' }],
    },
    {
      schema: {
        type: 'object',
        if: { properties: { a: { const: 1 } }, required: ['a'] },
        then: { properties: { b: {} } },
        else: { properties: { c: {} } },
        unevaluatedProperties: { type: 'string' },
      },
      valid: [{ a: 1, b: 2 }, { c: 3 }, { c: 3, d: 'x' }],
      invalid: [{ a: 1, c: 2 }, { b: 1 }, { c: 3, d: 4 }],
    },
  ],
  uniqueItems: [
    { schema: { type: 'array', uniqueItems: false }, valid: [[1, 1]], invalid: [1] },
    {
      schema: {
        type: 'array',
        uniqueItems: true,
        items: { enum: ['a', 'b', 1, { x: 1 }] },
        minItems: 1,
        maxItems: 3,
      },
      valid: [['b'], [1, 'a'], [{ x: 1 }, 'b', 1]],
      invalid: [[], ['a', 'a'], [1, 'b', 1], ['a', 'b', 1, { x: 1 }]],
    },
    {
      schema: { type: 'array', uniqueItems: true, items: { type: 'integer', minimum: -1, maximum: 2 } },
      valid: [[], [2, 0, -1, 1]],
      invalid: [[0, 0], [3]],
    },
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
  multipleOf: [
    { schema: { type: 'integer', multipleOf: 7 }, valid: [0, 7, -14, 700], invalid: [1, 8] },
    {
      schema: { type: 'number', multipleOf: 0.01 },
      valid: [0, 0.01, 19.99, -3.5, 7, 1234.56],
      invalid: [0.001, 19.999],
    },
    {
      schema: { type: 'number', multipleOf: 2.5, minimum: 1 },
      valid: [2.5, 5, 7.5, 100],
      invalid: [0, 1, 2, 2.55],
    },
  ],
};

function formatExamples(format: string): Omit<KeywordCase, 'schema'> {
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
    uuid1: [['f81d4fae-7dec-11d0-a765-00a0c91e6bf6'], ['f81d4fae-7dec-41d0-a765-00a0c91e6bf6']],
    uuid3: [['a3bb189e-8bf9-3888-9912-ace4e6543002'], ['a3bb189e-8bf9-3888-c912-ace4e6543002']],
    uuid4: [['16fd2706-8baf-433b-82eb-8c7fada847da'], ['16fd2706-8baf-133b-82eb-8c7fada847da']],
    uuid5: [['886313e1-3b8a-5372-9b90-0c9aee199e5d'], ['886313e1']],
    ipvanyaddress: [
      ['127.0.0.1', '::1', '::ffff:10.0.0.1'],
      ['127.0.0', 'x', '::ffff:10.0.0'],
    ],
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
      ['::1', '2001:db8::8a2e:370:7334', '::', '::ffff:192.0.2.1', '1:2:3:4:5:6:7.8.9.10', '1::2:3.4.5.6'],
      ['1::2::3', '12345::', ':1', '1:2:3:4:5:6:7:8.9.10.11', '::1.2.3.256', '1::2:3:4:5:6:7:1.2.3.4'],
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
