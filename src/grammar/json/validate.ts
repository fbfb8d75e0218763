// Validates the values of an `enum` against other keywords.

import { accepts } from '../regular/character-dfa.ts';
import { endless } from './alternatives.ts';
import { isObject, type Schema, type SchemaDocument, type SchemaObject } from './schema-document.ts';
import { formatDfa, patternDfa } from './strings.ts';

export function isValid(value: unknown, schema: Schema, document: SchemaDocument): boolean {
  return new Validator(document).valid(value, schema);
}

class Validator {
  readonly #document: SchemaDocument;
  /** References being followed: none may come back to itself. */
  readonly #open: [value: unknown, schema: Schema][] = [];

  constructor(document: SchemaDocument) {
    this.#document = document;
  }

  valid(value: unknown, schema: Schema): boolean {
    if (typeof schema === 'boolean') return schema;
    if (this.#open.some(([one, other]) => one === value && other === schema)) throw endless();
    this.#open.push([value, schema]);
    const result =
      this.#combined(value, schema) &&
      this.#listed(value, schema) &&
      hasType(value, schema) &&
      this.#kept(value, schema);
    this.#open.pop();
    return result;
  }

  #combined(value: unknown, schema: SchemaObject): boolean {
    const { $ref, allOf = [], anyOf, oneOf } = schema as Record<string, Schema[]> & { $ref?: string };
    const fits = (one: Schema) => this.valid(value, one);
    if ($ref !== undefined && !fits(this.#document.resolve($ref as unknown as string))) return false;
    return (
      allOf.every(fits) &&
      (anyOf?.some(fits) ?? true) &&
      (oneOf === undefined || oneOf.filter(fits).length === 1)
    );
  }

  #listed(value: unknown, schema: SchemaObject): boolean {
    if (Object.hasOwn(schema, 'const') && !isEqual(value, schema.const)) return false;
    return !Array.isArray(schema.enum) || schema.enum.some((one) => isEqual(value, one));
  }

  #kept(value: unknown, schema: SchemaObject): boolean {
    if (typeof value === 'number') return numberFits(value, schema);
    if (typeof value === 'string') return textFits(value, schema);
    if (Array.isArray(value)) return this.#itemsFit(value, schema);
    return isObject(value) ? this.#propertiesFit(value, schema) : true;
  }

  #itemsFit(values: readonly unknown[], schema: SchemaObject): boolean {
    const {
      prefixItems = [],
      items = true,
      minItems = 0,
      maxItems = Number.POSITIVE_INFINITY,
    } = schema as {
      prefixItems?: Schema[];
      items?: Schema;
      minItems?: number;
      maxItems?: number;
    };
    if (values.length < minItems || values.length > maxItems) return false;
    return values.every((value, at) => this.valid(value, prefixItems[at] ?? items));
  }

  #propertiesFit(value: SchemaObject, schema: SchemaObject): boolean {
    const names = Object.keys(value);
    const {
      required = [],
      minProperties = 0,
      maxProperties = Number.POSITIVE_INFINITY,
      propertyNames = true,
    } = schema as {
      required?: string[];
      minProperties?: number;
      maxProperties?: number;
      propertyNames?: Schema;
    };
    if (names.length < minProperties || names.length > maxProperties) return false;
    if (!required.every((name) => Object.hasOwn(value, name))) return false;
    return names.every(
      (name) =>
        this.valid(name, propertyNames) &&
        propertySchemas(name, schema).every((one) => this.valid(value[name], one)),
    );
  }
}

export function propertySchemas(name: string, schema: SchemaObject): Schema[] {
  const properties = (schema.properties ?? {}) as Record<string, Schema>;
  const patterns = Object.entries((schema.patternProperties ?? {}) as Record<string, Schema>);
  const found = patterns.filter(([pattern]) => accepts(patternDfa(pattern), name)).map(([, one]) => one);
  if (Object.hasOwn(properties, name)) found.push(properties[name] as Schema);
  if (found.length > 0) return found;
  return schema.additionalProperties === undefined ? [] : [schema.additionalProperties as Schema];
}

function hasType(value: unknown, { type }: SchemaObject): boolean {
  if (type === undefined) return true;
  const names = (Array.isArray(type) ? type : [type]) as string[];
  return names.some((name) => (name === 'integer' ? Number.isInteger(value) : name === typeOf(value)));
}

function typeOf(value: unknown): string {
  if (value === null) return 'null';
  return Array.isArray(value) ? 'array' : typeof value;
}

function numberFits(value: number, schema: SchemaObject): boolean {
  const {
    minimum = Number.NEGATIVE_INFINITY,
    maximum = Number.POSITIVE_INFINITY,
    exclusiveMinimum = Number.NEGATIVE_INFINITY,
    exclusiveMaximum = Number.POSITIVE_INFINITY,
    multipleOf,
  } = schema as Record<string, number>;
  if (multipleOf !== undefined && !Number.isInteger(value / multipleOf)) return false;
  return value >= minimum && value <= maximum && value > exclusiveMinimum && value < exclusiveMaximum;
}

function textFits(value: string, schema: SchemaObject): boolean {
  const {
    minLength = 0,
    maxLength = Number.POSITIVE_INFINITY,
    pattern,
    format,
  } = schema as {
    minLength?: number;
    maxLength?: number;
    pattern?: string;
    format?: string;
  };
  const { length } = [...value];
  if (length < minLength || length > maxLength) return false;
  if (pattern !== undefined && !accepts(patternDfa(pattern), value)) return false;
  return format === undefined || accepts(formatDfa(format), value);
}

function isEqual(a: unknown, b: unknown): boolean {
  if (a === b) return true;
  if (Array.isArray(a) && Array.isArray(b))
    return a.length === b.length && a.every((one, at) => isEqual(one, b[at]));
  if (!isObject(a) || !isObject(b)) return false;
  const names = Object.keys(a);
  return (
    names.length === Object.keys(b).length &&
    names.every((name) => Object.hasOwn(b, name) && isEqual(a[name], b[name]))
  );
}
