// Every keyword that is enforced, with documents that it allows and documents that it does not; and every one that is
// not enforced is refused by name.

import { readFileSync } from 'node:fs';
import { isIP } from 'node:net';
import { Ajv } from 'ajv';
import { Ajv2019 } from 'ajv/dist/2019.js';
import { Ajv2020 } from 'ajv/dist/2020.js';
import addFormats from 'ajv-formats';
import { describe, expect, it } from 'vitest';
import { keywordCases } from '../../../test/support/keyword-cases.ts';
import { rulesOf } from '../assemble.ts';
import { checkBytes } from '../check-text.ts';
import { compileRules } from '../compile.ts';
import { GrammarError } from '../grammar-error.ts';
import type { GrammarTables } from '../tables.ts';
import { enforcedKeywords } from './read-schema.ts';
import { SchemaDocument } from './schema-document.ts';
import { formats } from './strings.ts';
import { isValid } from './validate.ts';

function compiled(schema: unknown): GrammarTables {
  return compileRules(rulesOf({ kind: 'schema', schema }, () => undefined).rules);
}

/** Divides as digits say, within a rounding error. */
const options = { strict: false, multipleOfPrecision: 6 };
const judges = { 7: new Ajv(options), 2019: new Ajv2019(options), 2020: new Ajv2020(options) };
for (const judge of Object.values(judges)) addFormats.default(judge);
for (const format of Object.keys(formats)) {
  for (const judge of Object.values(judges))
    if (judge.formats[format] === undefined) judge.addFormat(format, isOfFormat(format));
}

/** Of Pydantic's own formats, by Node's idea of an address. */
function isOfFormat(format: string): (text: string) => boolean {
  if (format === 'ipvanyaddress') return (text) => isIP(text) !== 0;
  const version = /^uuid(\d)$/.exec(format)?.[1];
  if (version === undefined) throw new Error(`there is no judge of ${format}`);
  return (text) =>
    new RegExp(`^[0-9a-f]{8}-[0-9a-f]{4}-${version}[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`, 'i').test(
      text,
    );
}

describe('a keyword that is enforced', () => {
  it.each(enforcedKeywords)('%s allows what is valid and nothing else', (keyword) => {
    const own = keywordCases[keyword] ?? [];
    expect(own.length).toBeGreaterThan(0);
    for (const { schema, valid, invalid, draft = 2020 } of own) {
      expect(JSON.stringify(schema)).toContain(`"${keyword}"`);
      const judge = judges[draft].compile(schema as object);
      const document = new SchemaDocument(schema);
      const tables = compiled(schema);
      for (const [documents, expected] of [
        [valid, true],
        [invalid, false],
      ] as const) {
        for (const value of documents) {
          const where = `${JSON.stringify(schema)} and ${JSON.stringify(value)}`;
          expect(judge(value), `the other validator: ${where}`).toBe(expected);
          expect(isValid(value, document.root, document), `our validator: ${where}`).toBe(expected);
          expect(checkBytes(tables, JSON.stringify(value)).accepted, where).toBe(expected);
        }
      }
    }
  });

  it('is named in the documentation, and so is every format', () => {
    const page = readFileSync(new URL('../../../docs/structured-output.md', import.meta.url), 'utf8');
    for (const name of [...enforcedKeywords, ...Object.keys(formats)]) expect(page).toContain(`\`${name}\``);
  });
});

/** What cannot be held token by token: valid answers, and one that the closest grammar allows all the same. */
const unheld: readonly [keyword: string, schema: object, valid: unknown, invalid: unknown][] = [
  ['uniqueItems', { type: 'array', items: { type: 'string' }, uniqueItems: true }, ['a', 'b'], ['a', 'a']],
  ['minProperties', { type: 'object', minProperties: 3 }, { a: 1, b: 2, c: 3 }, undefined],
  ['not', { type: 'array', not: { uniqueItems: true } }, [1, 1], [1, 2]],
  ['$ref', { $ref: 'https://example.org/schema' }, 1, undefined],
  ['pattern', { type: 'string', pattern: '^(.)\\1$' }, 'aa', 'ab'],
  ['multipleOf', { type: 'number', multipleOf: 0.123456789 }, 0.123456789, 0.5],
];

describe('a keyword that cannot be enforced', () => {
  it.each(unheld)('is refused where the schema is strict: %s', (_, inner) => {
    for (const schema of [inner, { type: 'object', properties: { deep: { items: inner } } }])
      expect(() => compiled(schema)).toThrow(GrammarError);
  });

  it.each(unheld)('else allows every valid value, and a note says so: %s', (_, schema, valid, invalid) => {
    const { rules, notes, isLoose } = rulesOf(
      { kind: 'schema', schema, lenient: 'closest' },
      () => undefined,
    );
    expect(isLoose).toBe(true);
    expect(notes.join()).toMatch(/^not enforced: /);
    const document = new SchemaDocument(schema, false);
    const tables = compileRules(rules);
    for (const [value, expected] of [
      [valid, true],
      ...(invalid === undefined ? [] : [[invalid, false]]),
    ] as const) {
      expect(checkBytes(tables, JSON.stringify(value)).accepted).toBe(true);
      expect(isValid(value, document.root, document)).toBe(expected);
    }
  });

  it('does not matter where no value of its kind is allowed', () => {
    expect(
      checkBytes(compiled({ type: 'integer', pattern: '^(.)\\1$', uniqueItems: true }), '7').accepted,
    ).toBe(true);
  });
});

describe('what is not known', () => {
  it('is an annotation, and a note names it', () => {
    const schema = { type: 'string', format: 'made-up', madeUp: 1, 'x-own': 2, description: 'd' };
    const { rules, notes, isLoose } = rulesOf({ kind: 'schema', schema }, () => undefined);
    expect(checkBytes(compileRules(rules), '"x"').accepted).toBe(true);
    expect({ notes, isLoose }).toEqual({
      notes: [`unknown in the schema: 'madeUp', 'format' "made-up"`],
      isLoose: false,
    });
  });

  it('needs no note where it says only what a text is for', () => {
    for (const format of ['password', 'path', 'binary'])
      expect(rulesOf({ kind: 'schema', schema: { type: 'string', format } }, () => undefined).notes).toEqual(
        [],
      );
  });
});

describe('a malformed schema', () => {
  it.each([
    [{ type: 'made-up' }],
    [{ minLength: -1 }],
    [{ properties: [] }],
    [{ required: 'a' }],
    [7],
    [{ pattern: '(' }],
    [{ $ref: '#/nowhere' }],
    [{ nullable: 'yes', type: 'string' }],
    [{ dependencies: 1 }],
    [{ not: 7 }],
    [{ contains: [] }],
  ])('is refused: %j', (schema) => {
    for (const lenient of [undefined, 'closest'] as const)
      expect(() => rulesOf({ kind: 'schema', schema, ...(lenient && { lenient }) }, () => undefined)).toThrow(
        GrammarError,
      );
  });
});
