// What plain schemas that all hold require of each kind of value.

import { GrammarError } from '../grammar-error.ts';
import {
  accepts,
  type CharacterDfa,
  difference,
  intersection,
  lengthDfa,
  shortest,
  textsDfa,
  union,
} from '../regular/character-dfa.ts';
import { anyNumber, type NumberRules, nextDown, nextUp } from './number.ts';
import {
  allKinds,
  type Conjunction,
  itemSchema,
  type Kind,
  propertySchemas,
  type SchemaObject,
} from './schema.ts';
import type { SchemaDocument } from './schema-document.ts';
import { formatDfa, isPattern, patternDfa } from './strings.ts';

export type Plain = readonly SchemaObject[];

/** The values of the first list; other lists filter them. */
export function listedValues(plain: Plain): readonly unknown[] | undefined {
  return plain.find(({ values }) => values !== undefined)?.values;
}

export function kindsOf(plain: Plain): ReadonlySet<Kind> {
  return new Set(
    allKinds.filter((kind) => plain.every(({ kinds }) => kinds === undefined || kinds.includes(kind))),
  );
}

/** What one keyword says in each of the schemas that have it. */
export function all<Key extends keyof SchemaObject>(
  plain: Plain,
  key: Key,
): NonNullable<SchemaObject[Key]>[] {
  return plain.flatMap((schema) => {
    const value = schema[key];
    return value === undefined ? [] : [value as NonNullable<SchemaObject[Key]>];
  });
}

export function largest(plain: Plain, key: 'minItems' | 'minProperties' | 'minLength'): number {
  return all(plain, key).reduce((most, one) => Math.max(most, one), 0);
}

export function smallest(plain: Plain, key: 'maxItems' | 'maxProperties' | 'maxLength'): number | undefined {
  const given = all(plain, key);
  return given.length === 0 ? undefined : given.reduce((least, one) => Math.min(least, one));
}

export function numberRules(plain: Plain, kinds: ReadonlySet<Kind>): NumberRules {
  const fails = all(plain, 'fails');
  return {
    kinds: kinds.has('integer') ? (kinds.has('fraction') ? 'all' : 'integers') : 'fractions',
    least: Math.max(anyNumber.least, ...all(plain, 'minimum'), ...all(plain, 'exclusiveMinimum').map(nextUp)),
    most: Math.min(anyNumber.most, ...all(plain, 'maximum'), ...all(plain, 'exclusiveMaximum').map(nextDown)),
    multiplesOf: all(plain, 'multipleOf'),
    notMultiplesOf: all(fails, 'multipleOf'),
    excluded: all(fails, 'values')
      .flat()
      .filter((value) => typeof value === 'number'),
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

export function textLanguage(plain: Plain): TextLanguage {
  const least = largest(plain, 'minLength');
  const most = smallest(plain, 'maxLength');
  const fails = all(plain, 'fails');
  const excluded = [
    ...languagesOf(fails),
    ...all(fails, 'values').map((values) => textsDfa(values.filter((value) => typeof value === 'string'))),
  ];
  const [first, ...others] = [
    ...languagesOf(plain),
    ...(excluded.length > 0 ? [lengthDfa(0, undefined)] : []),
  ];
  if (first === undefined) return { least, most, dfa: undefined, counts: false };
  const counts = most !== undefined && most > MAX_SPELLED_LENGTH;
  const spelled = counts ? undefined : most;
  const long = least === 0 && spelled === undefined ? [] : [lengthDfa(least, spelled)];
  const dfa = excluded.reduce(difference, [...others, ...long].reduce(intersection, first));
  const isEmpty = most !== undefined && (least > most || shortest(dfa) > most);
  return isEmpty ? { least, most, dfa: textsDfa([]), counts: false } : { least, most, dfa, counts };
}

function languagesOf(schemas: Plain): CharacterDfa[] {
  return schemas.flatMap(({ pattern, format }) => {
    const known = format === undefined ? undefined : formatDfa(format);
    return [...(pattern === undefined ? [] : [patternDfa(pattern)]), ...(known === undefined ? [] : [known])];
  });
}

/** The texts that any of these alternatives allows. */
export function textsOf(alternatives: readonly Plain[], isValid: (text: string) => boolean): CharacterDfa {
  return alternatives.map((plain) => textsOfOne(plain, isValid)).reduce(union, textsDfa([]));
}

function textsOfOne(plain: Plain, isValid: (text: string) => boolean): CharacterDfa {
  if (!kindsOf(plain).has('string')) return textsDfa([]);
  const values = listedValues(plain);
  if (values !== undefined)
    return textsDfa(values.filter((value): value is string => typeof value === 'string' && isValid(value)));
  const { least, most, dfa, counts } = textLanguage(plain);
  if (dfa === undefined) return lengthDfa(least, most);
  return counts ? intersection(dfa, lengthDfa(0, most)) : dfa;
}

export function itemAt(plain: Plain, at: number): Conjunction {
  return plain.flatMap((schema) => itemSchema(schema, at) ?? []);
}

export function propertyOf(plain: Plain, name: string): Conjunction {
  return plain.flatMap((schema) =>
    propertySchemas(schema, name, (pattern) => accepts(patternDfa(pattern), name)),
  );
}

/**
 * The schemas without patterns that no automaton recognizes. Properties of such names may then be anything, and none is
 * additional for certain.
 */
export function recognizable(schema: SchemaObject, document: SchemaDocument): SchemaObject {
  const { pattern, patternProperties, fails } = schema;
  const isKnown = (one: string) => document.enforced("'pattern'", () => isPattern(one)) === true;
  let result = schema;
  if (pattern !== undefined && !isKnown(pattern)) {
    const { pattern: _, ...rest } = result;
    result = rest;
  }
  const names = [...(patternProperties ?? [])];
  if (!names.every(([one]) => isKnown(one))) {
    const { additionalProperties: _, ...rest } = result;
    result = { ...rest, patternProperties: new Map(names.filter(([one]) => isKnown(one))) };
  }
  const failing = fails && [fails.pattern ?? [], ...(fails.patternProperties?.keys() ?? [])].flat();
  if (failing?.every(isKnown) === false) {
    const { fails: _, ...rest } = result;
    result = rest;
  }
  return result;
}

/** Refuses what only a part of a `fails` says. */
export function unknownFailure(fails: SchemaObject): string | undefined {
  if (fails.uniqueItems !== undefined) return 'uniqueItems';
  if (fails.unevaluatedItems !== undefined) return 'unevaluatedItems';
  return fails.unevaluatedProperties === undefined ? undefined : 'unevaluatedProperties';
}

export function isTooLarge(error: unknown): boolean {
  return error instanceof GrammarError && error.problem === 'too-large';
}
