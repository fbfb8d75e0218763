// What plain schemas that all hold require of each type of value, and whether no value can satisfy them.

import { type CharacterDfa, intersection, lengthDfa, shortest, textsDfa } from '../regular/character-dfa.ts';
import { alternativesOf, type Conjunction } from './alternatives.ts';
import { anyNumber, type NumberRules, nextDown, nextUp, numberNode } from './number.ts';
import type { Schema, SchemaDocument, SchemaObject } from './schema-document.ts';
import { formatDfa, patternDfa } from './strings.ts';
import { isValid, propertySchemas } from './validate.ts';

/** The values of the first list; other lists filter them. */
export function listedValues(plain: readonly SchemaObject[]): readonly unknown[] | undefined {
  const listing = plain.find((schema) => Object.hasOwn(schema, 'const') || Array.isArray(schema.enum));
  if (listing === undefined) return undefined;
  return Object.hasOwn(listing, 'const') ? [listing.const] : (listing.enum as unknown[]);
}

const allTypes = ['null', 'boolean', 'number', 'integer', 'string', 'array', 'object'];

export function typesOf(plain: readonly SchemaObject[]): Set<string> {
  let types = new Set(allTypes);
  for (const { type } of plain) {
    if (type === undefined) continue;
    const own = new Set((Array.isArray(type) ? type : [type]) as string[]);
    if (own.has('number')) own.add('integer');
    types = new Set([...types].filter((name) => own.has(name)));
  }
  return types;
}

export function numberRules(plain: readonly SchemaObject[], fractions: boolean): NumberRules {
  const all = (keyword: string) =>
    plain.flatMap((schema) => (schema[keyword] === undefined ? [] : [schema[keyword] as number]));
  return {
    integer: !fractions,
    least: Math.max(anyNumber.least, ...all('minimum'), ...all('exclusiveMinimum').map(nextUp)),
    most: Math.min(anyNumber.most, ...all('maximum'), ...all('exclusiveMaximum').map(nextDown)),
    multiplesOf: all('multipleOf'),
  };
}

interface TextLanguage {
  readonly least: number;
  readonly most: number | undefined;
  /** Includes the lengths, except where `counts`; absent where only they are restricted. */
  readonly dfa: CharacterDfa | undefined;
  /** Whether `most` is left to be counted: a state for each length would be too many. */
  readonly counts: boolean;
}

/** Longer texts are counted. */
const MAX_SPELLED_LENGTH = 64;

export function textLanguage(plain: readonly SchemaObject[]): TextLanguage {
  const least = Math.max(0, ...plain.map(({ minLength }) => (minLength as number | undefined) ?? 0));
  const most = smallest(plain.map(({ maxLength }) => maxLength as number | undefined));
  const languages = plain.flatMap(({ pattern, format }) => [
    ...(pattern === undefined ? [] : [patternDfa(pattern as string)]),
    ...(format === undefined ? [] : [formatDfa(format as string)]),
  ]);
  const [first, ...others] = languages;
  if (first === undefined) return { least, most, dfa: undefined, counts: false };
  const counts = most !== undefined && most > MAX_SPELLED_LENGTH;
  if (counts && least > most) return { least, most, dfa: textsDfa([]), counts: false };
  const spelled = counts ? undefined : most;
  const long = least === 0 && spelled === undefined ? [] : [lengthDfa(least, spelled)];
  const dfa = [...others, ...long].reduce(intersection, first);
  if (counts && shortest(dfa) > most) return { least, most, dfa: textsDfa([]), counts: false };
  return { least, most, dfa, counts };
}

export function smallest(values: readonly (number | undefined)[]): number | undefined {
  const given = values.filter((value) => value !== undefined);
  return given.length === 0 ? undefined : Math.min(...given);
}

const MAX_DEPTH = 6;

/** For `oneOf`, which can be enforced only where its schemas exclude each other. Where it is not certain, the answer is no. */
export class Impossible {
  readonly #document: SchemaDocument;

  constructor(document: SchemaDocument) {
    this.#document = document;
  }

  is(conjunction: Conjunction, depth = 0): boolean {
    if (depth > MAX_DEPTH) return false;
    // Whether nested alternatives exclude each other is checked elsewhere.
    const alternatives = alternativesOf(conjunction, this.#document, () => true);
    return alternatives.every((plain) => this.#isImpossible(plain, depth));
  }

  #isImpossible(plain: readonly SchemaObject[], depth: number): boolean {
    const values = listedValues(plain);
    if (values !== undefined) {
      const own = plain.map(withoutCombinations);
      return !values.some((value) => own.every((schema) => isValid(value, schema, this.#document)));
    }
    const types = typesOf(plain);
    if (types.has('null') || types.has('boolean')) return false;
    const tests: Readonly<Record<string, () => boolean>> = {
      number: () => numberNode(numberRules(plain, true)) === undefined,
      integer: () => numberNode(numberRules(plain, false)) === undefined,
      string: () => this.#noText(plain),
      array: () => this.#noArray(plain, depth),
      object: () => this.#noObject(plain, depth),
    };
    return [...types].every((type) => tests[type]?.() ?? true);
  }

  #noText(plain: readonly SchemaObject[]): boolean {
    const { least, most, dfa } = textLanguage(plain);
    return dfa === undefined ? most !== undefined && least > most : dfa.states.length === 0;
  }

  #noArray(plain: readonly SchemaObject[], depth: number): boolean {
    const least = Math.max(0, ...plain.map(({ minItems }) => (minItems as number | undefined) ?? 0));
    const most = smallest(plain.map(({ maxItems }) => maxItems as number | undefined));
    if (most !== undefined && least > most) return true;
    return Array.from({ length: Math.min(least, 16) }, (_, at) => at).some((at) =>
      this.is(
        plain.flatMap(({ prefixItems, items = true }) => [
          ((prefixItems as Schema[] | undefined)?.[at] ?? items) as Schema,
        ]),
        depth + 1,
      ),
    );
  }

  #noObject(plain: readonly SchemaObject[], depth: number): boolean {
    const required = new Set(plain.flatMap((schema) => (schema.required as string[] | undefined) ?? []));
    const most = smallest(plain.map(({ maxProperties }) => maxProperties as number | undefined));
    if (most !== undefined && required.size > most) return true;
    return [...required].some((name) =>
      this.is(
        plain.flatMap((schema) => propertySchemas(name, schema)),
        depth + 1,
      ),
    );
  }
}

function withoutCombinations(schema: SchemaObject): SchemaObject {
  const { $ref: _ref, allOf: _allOf, anyOf: _anyOf, oneOf: _oneOf, ...own } = schema;
  return own;
}
