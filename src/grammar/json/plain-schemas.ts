// What plain schemas that all hold say together about each type of value.

import { type CharacterDfa, intersection, lengthDfa } from '../regular/character-dfa.ts';
import { anyNumber, type NumberRules, nextDown, nextUp } from './number.ts';
import type { SchemaObject } from './schema-document.ts';
import { formatDfa, patternDfa } from './text-languages.ts';

/** The values of the first list; the others are looked up in it. */
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
    // A number may be an integer.
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
  /** With the lengths in it; absent where they are all there is. */
  readonly dfa: CharacterDfa | undefined;
}

export function textLanguage(plain: readonly SchemaObject[]): TextLanguage {
  const least = Math.max(0, ...plain.map(({ minLength }) => (minLength as number | undefined) ?? 0));
  const most = smallest(plain.map(({ maxLength }) => maxLength as number | undefined));
  const languages = plain.flatMap(({ pattern, format }) => [
    ...(pattern === undefined ? [] : [patternDfa(pattern as string)]),
    ...(format === undefined ? [] : [formatDfa(format as string)]),
  ]);
  const [first, ...others] = languages;
  if (first === undefined) return { least, most, dfa: undefined };
  const long = least === 0 && most === undefined ? [] : [lengthDfa(least, most)];
  return { least, most, dfa: [...others, ...long].reduce(intersection, first) };
}

export function smallest(values: readonly (number | undefined)[]): number | undefined {
  const given = values.filter((value) => value !== undefined);
  return given.length === 0 ? undefined : Math.min(...given);
}
