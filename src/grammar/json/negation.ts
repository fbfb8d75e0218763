// What a value that is not valid against a schema may be: alternatives, each of schemas that all hold. Where no keyword
// says the contrary of another, `fails` does.

import { allKinds, type Conjunction, type Kind, kindOf, type Schema, type SchemaObject } from './schema.ts';
import type { SchemaDocument } from './schema-document.ts';

const numbers: readonly Kind[] = ['integer', 'fraction'];
const text: readonly Kind[] = ['string'];
const array: readonly Kind[] = ['array'];
const object: readonly Kind[] = ['object'];

export class Negations {
  readonly #document: SchemaDocument;
  readonly #negated = new Map<SchemaObject, SchemaObject>();
  readonly #alternatives = new Map<SchemaObject, readonly Conjunction[]>();

  constructor(document: SchemaDocument) {
    this.#document = document;
  }

  /** The same object each time, so that rules of recursive schemas come to an end. */
  not(schema: Schema): Schema {
    if (typeof schema === 'boolean') return !schema;
    const known = this.#negated.get(schema);
    if (known !== undefined) return known;
    const made: SchemaObject = { not: schema };
    this.#negated.set(schema, made);
    return made;
  }

  alternativesOf(schema: Schema): readonly Conjunction[] {
    if (typeof schema === 'boolean') return schema ? [] : [[true]];
    if (schema.isUnknown === true) return [[true]];
    const known = this.#alternatives.get(schema) ?? [
      ...this.#combinations(schema),
      ...this.#values(schema),
      ...textLimits(schema),
      ...numberLimits(schema),
      ...this.#arrays(schema),
      ...this.#objects(schema),
    ];
    this.#alternatives.set(schema, known);
    return known;
  }

  *#combinations(schema: SchemaObject): Iterable<Conjunction> {
    const {
      references = [],
      allOf = [],
      anyOf,
      oneOf,
      if: condition,
      then = true,
      else: otherwise = true,
    } = schema;
    for (const one of references) yield [this.not(this.#document.resolve(one))];
    for (const one of allOf) yield [this.not(one)];
    if (anyOf !== undefined) yield anyOf.map((one) => this.not(one));
    if (oneOf !== undefined) {
      yield oneOf.map((one) => this.not(one));
      for (const [at, one] of oneOf.entries()) for (const other of oneOf.slice(at + 1)) yield [one, other];
    }
    if (schema.not !== undefined) yield [schema.not];
    if (schema.fails !== undefined) yield [schema.fails];
    if (condition === undefined) return;
    yield [condition, this.not(then)];
    yield [this.not(condition), this.not(otherwise)];
  }

  *#values({ kinds, values }: SchemaObject): Iterable<Conjunction> {
    if (kinds !== undefined) yield [{ kinds: allKinds.filter((kind) => !kinds.includes(kind)) }];
    if (values === undefined) return;
    const listed = new Set(values.map(kindOf));
    yield [{ kinds: allKinds.filter((kind) => !listed.has(kind)) }];
    for (const kind of listed) {
      const own = values.filter((value) => kindOf(value) === kind);
      if (kind === 'boolean' && own.includes(true) !== own.includes(false)) {
        yield [{ kinds: ['boolean'], values: [!own.includes(true)] }];
      }
      if (kind === 'array' || kind === 'object') {
        yield [{ kinds: [kind] }, ...own.map((value) => this.not(schemaOfValue(value)))];
      }
      if (kind === 'string' || kind === 'integer' || kind === 'fraction')
        yield [{ kinds: [kind], fails: { values: own } }];
    }
  }

  *#arrays(schema: SchemaObject): Iterable<Conjunction> {
    const {
      prefixItems = [],
      items,
      minItems = 0,
      maxItems,
      uniqueItems,
      contains,
      unevaluatedItems,
    } = schema;
    for (const [at, one] of prefixItems.entries()) {
      const before: Schema[] = Array.from({ length: at }, () => true);
      yield [{ kinds: array, minItems: at + 1, prefixItems: [...before, this.not(one)] }];
    }
    if (items !== undefined && prefixItems.length === 0) yield [{ kinds: array, contains: this.not(items) }];
    if (items !== undefined && prefixItems.length > 0)
      yield [{ kinds: array, fails: { prefixItems, items } }];
    if (minItems > 0) yield [{ kinds: array, maxItems: minItems - 1 }];
    if (maxItems !== undefined) yield [{ kinds: array, minItems: maxItems + 1 }];
    if (uniqueItems === true) yield [{ kinds: array, minItems: 2, fails: { uniqueItems } }];
    if (unevaluatedItems !== undefined) yield [{ kinds: array, fails: { unevaluatedItems } }];
    if (contains === undefined) return;
    const { minContains = 1, maxContains } = schema;
    if (minContains > 0) yield [{ kinds: array, contains, minContains: 0, maxContains: minContains - 1 }];
    if (maxContains !== undefined) yield [{ kinds: array, contains, minContains: maxContains + 1 }];
  }

  *#objects(schema: SchemaObject): Iterable<Conjunction> {
    const { properties = new Map<string, Schema>(), patternProperties = new Map<string, Schema>() } = schema;
    const { additionalProperties, propertyNames, unevaluatedProperties } = schema;
    const { required = [], minProperties = 0, maxProperties, dependentRequired, dependentSchemas } = schema;
    for (const name of required) yield [without(name)];
    for (const [name, one] of properties)
      yield [{ kinds: object, required: [name], properties: new Map([[name, this.not(one)]]) }];
    for (const entry of patternProperties)
      yield [{ kinds: object, fails: { patternProperties: new Map([entry]) } }];
    if (additionalProperties !== undefined && additionalProperties !== true)
      yield [{ kinds: object, fails: { properties, patternProperties, additionalProperties } }];
    if (propertyNames !== undefined) yield [{ kinds: object, fails: { propertyNames } }];
    if (unevaluatedProperties !== undefined) yield [{ kinds: object, fails: { unevaluatedProperties } }];
    if (minProperties > 0) yield [{ kinds: object, maxProperties: minProperties - 1 }];
    if (maxProperties !== undefined) yield [{ kinds: object, minProperties: maxProperties + 1 }];
    for (const [name, others] of dependentRequired ?? [])
      for (const other of others) yield [{ kinds: object, required: [name] }, without(other)];
    for (const [name, one] of dependentSchemas ?? [])
      yield [{ kinds: object, required: [name] }, this.not(one)];
  }
}

/** An object that does not have the property. */
export function without(name: string): SchemaObject {
  return { kinds: object, properties: new Map([[name, false]]) };
}

function* numberLimits(schema: SchemaObject): Iterable<Conjunction> {
  const { minimum, maximum, exclusiveMinimum, exclusiveMaximum, multipleOf } = schema;
  if (minimum !== undefined) yield [{ kinds: numbers, exclusiveMaximum: minimum }];
  if (maximum !== undefined) yield [{ kinds: numbers, exclusiveMinimum: maximum }];
  if (exclusiveMinimum !== undefined) yield [{ kinds: numbers, maximum: exclusiveMinimum }];
  if (exclusiveMaximum !== undefined) yield [{ kinds: numbers, minimum: exclusiveMaximum }];
  if (multipleOf !== undefined) yield [{ kinds: numbers, fails: { multipleOf } }];
}

function* textLimits({ minLength = 0, maxLength, pattern, format }: SchemaObject): Iterable<Conjunction> {
  if (minLength > 0) yield [{ kinds: text, maxLength: minLength - 1 }];
  if (maxLength !== undefined) yield [{ kinds: text, minLength: maxLength + 1 }];
  if (pattern !== undefined) yield [{ kinds: text, fails: { pattern } }];
  if (format !== undefined) yield [{ kinds: text, fails: { format } }];
}

/** A schema of this value alone, by its parts. */
function schemaOfValue(value: unknown): SchemaObject {
  if (Array.isArray(value)) {
    const prefixItems = value.map((one) => schemaOfValue(one));
    return { kinds: array, minItems: value.length, maxItems: value.length, prefixItems };
  }
  if (typeof value !== 'object' || value === null) return { values: [value] };
  const properties = new Map(Object.entries(value).map(([name, one]) => [name, schemaOfValue(one)]));
  return { kinds: object, required: [...properties.keys()], properties, additionalProperties: false };
}
