// Validates values: those of an `enum` against other keywords, and finished answers where a grammar could not enforce all of
// their schema.

import { GrammarError } from '../grammar-error.ts';
import { accepts } from '../regular/character-dfa.ts';
import { endless } from './alternatives.ts';
import { isMultiple } from './decimal.ts';
import {
  isEqual,
  isObject,
  itemSchema,
  kindOf,
  propertySchemas,
  type Schema,
  type SchemaObject,
} from './schema.ts';
import { SchemaDocument } from './schema-document.ts';
import { formatDfa, patternDfa } from './strings.ts';

export function isValid(value: unknown, schema: Schema, document: SchemaDocument): boolean {
  return new Validator(document).valid(value, schema) !== undefined;
}

/** Whether a text is JSON that is valid; null where that cannot be said, as with a schema that is elsewhere. */
export function isValidText(text: string, schema: unknown): boolean | null {
  try {
    const document = new SchemaDocument(schema, false);
    const valid = isValid(JSON.parse(text), document.root, document);
    return document.notes.notEnforced.size > 0 ? null : valid;
  } catch (error) {
    if (error instanceof SyntaxError) return false;
    // A malformed schema, or a value so deep that the stack overflows.
    if (error instanceof GrammarError || error instanceof RangeError) return null;
    throw error;
  }
}

/** Which properties and items of a value some schema was applied to. */
interface Evaluated {
  readonly names: Set<string>;
  readonly items: Set<number>;
}

class Validator {
  readonly #document: SchemaDocument;
  /** References being followed: none may come back to itself. */
  readonly #open: [value: unknown, schema: Schema][] = [];

  constructor(document: SchemaDocument) {
    this.#document = document;
  }

  /** Undefined where the value is not valid. */
  valid(value: unknown, schema: Schema): Evaluated | undefined {
    const evaluated: Evaluated = { names: new Set(), items: new Set() };
    if (typeof schema === 'boolean') return schema ? evaluated : undefined;
    if (this.#open.some(([one, other]) => one === value && other === schema)) throw endless();
    this.#open.push([value, schema]);
    const result =
      hasKind(value, schema) &&
      this.#combined(value, schema, evaluated) &&
      this.#kept(value, schema, evaluated);
    this.#open.pop();
    return result ? evaluated : undefined;
  }

  #combined(value: unknown, schema: SchemaObject, evaluated: Evaluated): boolean {
    const { references = [], allOf = [], anyOf, oneOf, not, fails } = schema;
    const fits = (one: Schema) => {
      const found = this.valid(value, one);
      for (const name of found?.names ?? []) evaluated.names.add(name);
      for (const at of found?.items ?? []) evaluated.items.add(at);
      return found !== undefined;
    };
    const count = (schemas: readonly Schema[]) => schemas.filter(fits).length;
    return (
      references.every((one) => fits(this.#document.resolve(one))) &&
      allOf.every(fits) &&
      (anyOf === undefined || count(anyOf) > 0) &&
      (oneOf === undefined || count(oneOf) === 1) &&
      (not === undefined || this.valid(value, not) === undefined) &&
      (fails === undefined || this.valid(value, fails) === undefined) &&
      (schema.if === undefined || fits((fits(schema.if) ? schema.then : schema.else) ?? true)) &&
      this.#dependenciesFit(value, schema, fits)
    );
  }

  #dependenciesFit(value: unknown, schema: SchemaObject, fits: (one: Schema) => boolean): boolean {
    if (!isObject(value)) return true;
    const { dependentRequired = [], dependentSchemas = [] } = schema;
    const has = (name: string) => Object.hasOwn(value, name);
    return (
      [...dependentRequired].every(([name, others]) => !has(name) || others.every(has)) &&
      [...dependentSchemas].every(([name, one]) => !has(name) || fits(one))
    );
  }

  #kept(value: unknown, schema: SchemaObject, evaluated: Evaluated): boolean {
    if (schema.values !== undefined && !schema.values.some((one) => isEqual(value, one))) return false;
    if (typeof value === 'number') return numberFits(value, schema);
    if (typeof value === 'string') return textFits(value, schema);
    if (Array.isArray(value)) return this.#itemsFit(value, schema, evaluated);
    return isObject(value) ? this.#propertiesFit(value, schema, evaluated) : true;
  }

  #itemsFit(values: readonly unknown[], schema: SchemaObject, { items }: Evaluated): boolean {
    const {
      minItems = 0,
      maxItems = Number.POSITIVE_INFINITY,
      uniqueItems,
      contains,
      unevaluatedItems,
    } = schema;
    if (values.length < minItems || values.length > maxItems) return false;
    if (uniqueItems === true && new Set(values.map(canonical)).size < values.length) return false;
    for (const [at, value] of values.entries()) {
      const own = itemSchema(schema, at);
      if (own === undefined) continue;
      if (this.valid(value, own) === undefined) return false;
      items.add(at);
    }
    if (contains !== undefined) {
      const { minContains = 1, maxContains = Number.POSITIVE_INFINITY } = schema;
      const found = [...values.keys()].filter((at) => this.valid(values[at], contains) !== undefined);
      if (found.length < minContains || found.length > maxContains) return false;
      for (const at of found) items.add(at);
    }
    if (unevaluatedItems === undefined) return true;
    const rest = [...values.keys()].filter((at) => !items.has(at));
    for (const at of rest) items.add(at);
    return rest.every((at) => this.valid(values[at], unevaluatedItems) !== undefined);
  }

  #propertiesFit(
    value: Readonly<Record<string, unknown>>,
    schema: SchemaObject,
    evaluated: Evaluated,
  ): boolean {
    const names = Object.keys(value);
    const { required = [], minProperties = 0, maxProperties = Number.POSITIVE_INFINITY } = schema;
    const { propertyNames = true, unevaluatedProperties } = schema;
    if (names.length < minProperties || names.length > maxProperties) return false;
    if (!required.every((name) => Object.hasOwn(value, name))) return false;
    for (const name of names) {
      if (this.valid(name, propertyNames) === undefined) return false;
      const own = propertySchemas(schema, name, (pattern) => isMatch(pattern, name));
      if (!own.every((one) => this.valid(value[name], one) !== undefined)) return false;
      if (own.length > 0) evaluated.names.add(name);
    }
    if (unevaluatedProperties === undefined) return true;
    const rest = names.filter((name) => !evaluated.names.has(name));
    for (const name of rest) evaluated.names.add(name);
    return rest.every((name) => this.valid(value[name], unevaluatedProperties) !== undefined);
  }
}

function hasKind(value: unknown, { kinds }: SchemaObject): boolean {
  return kinds === undefined || kinds.includes(kindOf(value));
}

function numberFits(value: number, schema: SchemaObject): boolean {
  const { minimum = Number.NEGATIVE_INFINITY, maximum = Number.POSITIVE_INFINITY, multipleOf } = schema;
  const { exclusiveMinimum = Number.NEGATIVE_INFINITY, exclusiveMaximum = Number.POSITIVE_INFINITY } = schema;
  if (multipleOf !== undefined && !isMultiple(value, multipleOf)) return false;
  return value >= minimum && value <= maximum && value > exclusiveMinimum && value < exclusiveMaximum;
}

function textFits(value: string, schema: SchemaObject): boolean {
  const { minLength = 0, maxLength = Number.POSITIVE_INFINITY, pattern, format } = schema;
  const { length } = [...value];
  if (length < minLength || length > maxLength) return false;
  if (pattern !== undefined && !isMatch(pattern, value)) return false;
  const language = format === undefined ? undefined : formatDfa(format);
  return language === undefined || accepts(language, value);
}

/** Where no automaton says it, the interpreter's own regular expressions do. They may take for ever: see the thread's limit. */
function isMatch(pattern: string, value: string): boolean {
  try {
    return accepts(patternDfa(pattern), value);
  } catch (error) {
    if (!(error instanceof GrammarError) || error.problem === 'malformed') throw error;
    return interpreted(pattern).test(value);
  }
}

function interpreted(pattern: string): RegExp {
  try {
    return new RegExp(pattern, 'u');
  } catch {
    return new RegExp(pattern);
  }
}

/** Equal texts, equal values. */
function canonical(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(canonical).join()}]`;
  if (!isObject(value)) return JSON.stringify(value);
  const names = Object.keys(value).sort();
  return `{${names.map((name) => `${JSON.stringify(name)}:${canonical(value[name])}`).join()}}`;
}
