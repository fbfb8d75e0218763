// Reads one schema object: checks the values of its keywords and writes those of older drafts and of OpenAPI as the draft
// 2020-12 has them.

import { GrammarError, malformed } from '../grammar-error.ts';
import { isEqual, isObject, type Kind, type Schema, type SchemaObject } from './schema.ts';

type RawSchema = Readonly<Record<string, unknown>>;

/** Do not affect validity. */
const annotations: ReadonlySet<string> = new Set([
  '$schema',
  '$id',
  'id',
  '$anchor',
  '$dynamicAnchor',
  '$recursiveAnchor',
  '$comment',
  '$vocabulary',
  '$defs',
  'definitions',
  'title',
  'description',
  'default',
  'examples',
  'example',
  'deprecated',
  'readOnly',
  'writeOnly',
  'contentEncoding',
  'contentMediaType',
  'contentSchema',
  // Of OpenAPI, where they change nothing about what is valid.
  'discriminator',
  'externalDocs',
  'xml',
]);

export interface SchemaReading {
  readonly base: string;
  /** Reads a schema within. */
  inner(value: unknown): Schema;
  unknown(keyword: string): void;
}

type Read<Value> = (value: unknown, reading: SchemaReading) => Value | undefined;

const count: Read<number> = (value) =>
  Number.isInteger(value) && (value as number) >= 0 ? (value as number) : undefined;
const number: Read<number> = (value) =>
  typeof value === 'number' && Number.isFinite(value) ? value : undefined;
const text: Read<string> = (value) => (typeof value === 'string' ? value : undefined);
const truth: Read<boolean> = (value) => (typeof value === 'boolean' ? value : undefined);
const texts: Read<string[]> = (value) =>
  Array.isArray(value) && value.every((one) => typeof one === 'string') ? value : undefined;
const isSchema = (value: unknown) => typeof value === 'boolean' || isObject(value);
const schema: Read<Schema> = (value, { inner }) => (isSchema(value) ? inner(value) : undefined);
const schemas: Read<Schema[]> = (value, { inner }) =>
  Array.isArray(value) && value.length > 0 && value.every(isSchema) ? value.map(inner) : undefined;
const mapOf =
  <Value>(read: Read<Value>): Read<ReadonlyMap<string, Value>> =>
  (value, reading) => {
    if (!isObject(value)) return undefined;
    const entries = Object.entries(value).map(([name, one]) => [name, read(one, reading)] as const);
    return entries.every((entry): entry is readonly [string, Value] => entry[1] !== undefined)
      ? new Map(entries)
      : undefined;
  };
const values: Read<unknown[]> = (value) =>
  Array.isArray(value) && value.every(isWritable) ? value : undefined;

/** A number that is too large for a double has been read as infinity, which JSON cannot write. */
function isWritable(value: unknown): boolean {
  if (typeof value === 'number') return Number.isFinite(value);
  return typeof value !== 'object' || value === null || Object.values(value).every(isWritable);
}

const kindsOfType: Readonly<Record<string, readonly Kind[]>> = {
  null: ['null'],
  boolean: ['boolean'],
  number: ['integer', 'fraction'],
  integer: ['integer'],
  string: ['string'],
  array: ['array'],
  object: ['object'],
};
const kinds: Read<Kind[]> = (value) => {
  const names: unknown[] = Array.isArray(value) ? value : [value];
  const isType = (name: unknown): name is string =>
    typeof name === 'string' && Object.hasOwn(kindsOfType, name);
  if (names.length === 0 || !names.every(isType)) return undefined;
  return [...new Set(names.flatMap((name) => kindsOfType[name] as Kind[]))];
};

function reads<Key extends keyof SchemaObject>(
  key: Key,
  read: Read<NonNullable<SchemaObject[Key]>>,
  keyword: string = key,
): [keyword: string, read: Read<SchemaObject>] {
  const wrapped: Read<SchemaObject> = (value, reading) => {
    const found = read(value, reading);
    return found === undefined ? undefined : ({ [key]: found } as SchemaObject);
  };
  return [keyword, wrapped];
}

function reference(dynamic: boolean): Read<SchemaObject> {
  return (value, { base }) =>
    typeof value === 'string' ? { references: [{ text: value, base, dynamic }] } : undefined;
}

/** A value that a keyword cannot have gives undefined. */
const readers: ReadonlyMap<string, Read<SchemaObject>> = new Map([
  ['$ref', reference(false)],
  ['$dynamicRef', reference(true)],
  reads('kinds', kinds, 'type'),
  reads('values', values, 'enum'),
  reads('values', (value) => (isWritable(value) ? [value] : undefined), 'const'),
  reads('allOf', schemas),
  reads('anyOf', schemas),
  reads('oneOf', schemas),
  reads('not', schema),
  reads('if', schema),
  reads('then', schema),
  reads('else', schema),
  reads('properties', mapOf(schema)),
  reads('patternProperties', mapOf(schema)),
  reads('additionalProperties', schema),
  reads('unevaluatedProperties', schema),
  reads('propertyNames', schema),
  reads('required', texts),
  reads('minProperties', count),
  reads('maxProperties', count),
  reads('dependentRequired', mapOf(texts)),
  reads('dependentSchemas', mapOf(schema)),
  reads('prefixItems', schemas),
  reads('items', schema),
  reads('unevaluatedItems', schema),
  reads('contains', schema),
  reads('minContains', count),
  reads('maxContains', count),
  reads('minItems', count),
  reads('maxItems', count),
  reads('uniqueItems', truth),
  reads('minLength', count),
  reads('maxLength', count),
  reads('pattern', text),
  reads('format', text),
  reads('minimum', number),
  reads('maximum', number),
  reads('exclusiveMinimum', number),
  reads('exclusiveMaximum', number),
  reads('multipleOf', (value) => ((number(value, never) ?? 0) > 0 ? (value as number) : undefined)),
]);
/** A text must match this grammar of Lark. Made for the input of custom tools; no schema of a client's has it. */
export const larkKeyword = 'x-chairlift-lark';
const [, readLark] = reads('lark', text);
const never: SchemaReading = { base: '', inner: () => false, unknown: () => {} };

/** Of older drafts and of OpenAPI. */
const olderKeywords = ['additionalItems', 'dependencies', 'nullable', '$recursiveRef'];
export const enforcedKeywords: readonly string[] = [...readers.keys(), ...olderKeywords];

export function readSchema(raw: RawSchema, reading: SchemaReading): SchemaObject {
  let read: SchemaObject = {};
  for (const [keyword, value] of Object.entries(modern(raw))) {
    if (value === undefined) continue;
    const own = keyword === larkKeyword ? readLark : readers.get(keyword);
    if (own === undefined) {
      if (!annotations.has(keyword) && !keyword.startsWith('x-')) reading.unknown(keyword);
      continue;
    }
    const found = own(value, reading);
    if (found === undefined)
      throw new GrammarError(
        'malformed',
        `'${keyword}' of the schema has a value that JSON Schema does not allow`,
        keyword,
      );
    read = joined(read, found);
  }
  return read;
}

/** `const` filters the values of `enum`; a schema may have both references. */
function joined(a: SchemaObject, b: SchemaObject): SchemaObject {
  if (a.values !== undefined && b.values !== undefined) {
    const both = a.values.filter((one) => b.values?.some((other) => isEqual(one, other)));
    return { ...a, values: both };
  }
  if (a.references !== undefined && b.references !== undefined)
    return { ...a, references: [...a.references, ...b.references] };
  return { ...a, ...b };
}

function modern(raw: RawSchema): RawSchema {
  const result: Record<string, unknown> = { ...raw };
  const { items, additionalItems, dependencies, nullable } = raw;
  delete result.additionalItems;
  delete result.dependencies;
  delete result.nullable;
  if (Array.isArray(items)) {
    if (raw.prefixItems !== undefined)
      throw malformed("'items' of the schema is a list next to 'prefixItems'");
    delete result.items;
    if (items.length > 0) result.prefixItems = items;
    if (additionalItems !== undefined) result.items = additionalItems;
  }
  for (const [exclusive, limit] of [
    ['exclusiveMinimum', 'minimum'],
    ['exclusiveMaximum', 'maximum'],
  ] as const) {
    if (typeof raw[exclusive] !== 'boolean') continue;
    delete result[exclusive];
    if (raw[exclusive] !== true || raw[limit] === undefined) continue;
    result[exclusive] = raw[limit];
    delete result[limit];
  }
  if (dependencies !== undefined) splitDependencies(dependencies, result);
  if (nullable !== undefined && typeof nullable !== 'boolean')
    throw new GrammarError('malformed', "'nullable' of the schema is neither true nor false", 'nullable');
  if (nullable === true && raw.type !== undefined) result.type = [raw.type, 'null'].flat();
  // Without another schema around, it leads where `$ref` does.
  if (raw.$recursiveRef !== undefined) {
    delete result.$recursiveRef;
    result.$dynamicRef = raw.$recursiveRef;
  }
  return result;
}

function splitDependencies(dependencies: unknown, result: Record<string, unknown>): void {
  if (!isObject(dependencies))
    throw new GrammarError('malformed', "'dependencies' of the schema is no object", 'dependencies');
  const entries = Object.entries(dependencies);
  const add = (keyword: string, own: [string, unknown][]) => {
    if (own.length > 0)
      result[keyword] = Object.fromEntries([...Object.entries(result[keyword] ?? {}), ...own]);
  };
  add(
    'dependentRequired',
    entries.filter(([, one]) => Array.isArray(one)),
  );
  add(
    'dependentSchemas',
    entries.filter(([, one]) => !Array.isArray(one)),
  );
}
