// A JSON Schema document: resolves references and checks keywords. A keyword that cannot be enforced is refused by
// name; none is ignored.

import { GrammarError, malformed } from '../grammar-error.ts';

export type Schema = boolean | SchemaObject;
export type SchemaObject = Readonly<Record<string, unknown>>;

/** Do not affect validity. */
const annotations: ReadonlySet<string> = new Set([
  '$schema',
  '$id',
  '$anchor',
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
  // Of OpenAPI, where it changes nothing about what is valid.
  'discriminator',
]);

type Check = (value: unknown) => boolean;

const isCount: Check = (value) => Number.isInteger(value) && (value as number) >= 0;
const isNumber: Check = (value) => typeof value === 'number' && Number.isFinite(value);
const isText: Check = (value) => typeof value === 'string';
const isTexts: Check = (value) => Array.isArray(value) && value.every(isText);
const isSchema: Check = (value) => typeof value === 'boolean' || isObject(value);
const isSchemas: Check = (value) => Array.isArray(value) && value.length > 0 && value.every(isSchema);
const isSchemaMap: Check = (value) => isObject(value) && Object.values(value).every(isSchema);
/** A number that is too large for a double has been read as infinity, which JSON cannot write. */
function isWritable(value: unknown): boolean {
  if (typeof value === 'number') return Number.isFinite(value);
  return typeof value !== 'object' || value === null || Object.values(value).every(isWritable);
}

const typeNames = ['null', 'boolean', 'number', 'integer', 'string', 'array', 'object'];
const isType: Check = (value) => {
  const names = Array.isArray(value) ? value : [value];
  return names.length > 0 && names.every((name) => typeNames.includes(name as string));
};

export const enforcedKeywords: Readonly<Record<string, Check>> = {
  $ref: isText,
  type: isType,
  enum: (value) => Array.isArray(value) && value.every(isWritable),
  const: isWritable,
  allOf: isSchemas,
  anyOf: isSchemas,
  oneOf: isSchemas,
  properties: isSchemaMap,
  patternProperties: isSchemaMap,
  additionalProperties: isSchema,
  propertyNames: isSchema,
  required: isTexts,
  minProperties: isCount,
  maxProperties: isCount,
  prefixItems: isSchemas,
  items: isSchema,
  minItems: isCount,
  maxItems: isCount,
  uniqueItems: (value) => typeof value === 'boolean',
  minLength: isCount,
  maxLength: isCount,
  pattern: isText,
  format: isText,
  minimum: isNumber,
  maximum: isNumber,
  exclusiveMinimum: isNumber,
  exclusiveMaximum: isNumber,
  multipleOf: (value) => isNumber(value) && (value as number) > 0,
};

const MAX_DEPTH = 200;
const MAX_SCHEMAS = 20_000;

export class SchemaDocument {
  readonly root: Schema;
  readonly #anchors = new Map<string, Schema>();
  readonly #numbers = new Map<Schema, number>();

  constructor(root: unknown) {
    if (!isSchema(root)) throw malformed('a schema must be an object, true or false');
    this.root = root as Schema;
    this.#check(this.root, 0);
  }

  numberOf(schema: Schema): number {
    const known = this.#numbers.get(schema);
    if (known !== undefined) return known;
    this.#numbers.set(schema, this.#numbers.size);
    return this.#numbers.size - 1;
  }

  resolve(reference: string): Schema {
    if (!reference.startsWith('#')) {
      const message = `$ref: '${reference.slice(0, 80)}' leads outside of the schema`;
      throw new GrammarError('unsupported', message, '$ref');
    }
    const fragment = decodeFragment(reference.slice(1));
    const found =
      fragment === '' || fragment.startsWith('/') ? this.#point(fragment) : this.#anchors.get(fragment);
    if (!isSchema(found)) throw malformed(`$ref: there is no schema at '${reference.slice(0, 80)}'`);
    // A location that no keyword leads to is not checked yet.
    if (!this.#numbers.has(found as Schema)) this.#check(found as Schema, 0);
    return found as Schema;
  }

  #point(pointer: string): unknown {
    const steps = pointer
      .split('/')
      .slice(1)
      .map((step) => step.replaceAll('~1', '/').replaceAll('~0', '~'));
    return steps.reduce<unknown>(
      (value, step) =>
        typeof value === 'object' && value !== null && Object.hasOwn(value, step)
          ? (value as Record<string, unknown>)[step]
          : undefined,
      this.root,
    );
  }

  #check(schema: Schema, depth: number, hasOwnBase = false): void {
    if (typeof schema === 'boolean' || this.#numbers.has(schema)) return;
    if (depth > MAX_DEPTH)
      throw new GrammarError('too-large', `the schema is more than ${MAX_DEPTH} levels deep`);
    if (this.numberOf(schema) > MAX_SCHEMAS) {
      throw new GrammarError('too-large', `the schema consists of more than ${MAX_SCHEMAS} schemas`);
    }
    if (typeof schema.$anchor === 'string') this.#anchors.set(schema.$anchor, schema);
    // References within are relative to it, not to the root.
    const ownBase = hasOwnBase || (schema !== this.root && isBase(schema.$id));
    if (ownBase && schema.$ref !== undefined) {
      throw new GrammarError('unsupported', "'$ref' cannot be followed below an '$id' of its own", '$ref');
    }
    for (const [keyword, value] of Object.entries(schema)) {
      checkKeyword(keyword, value, schema);
      for (const inner of innerSchemas(keyword, value)) this.#check(inner, depth + 1, ownBase);
    }
  }
}

function checkKeyword(keyword: string, value: unknown, schema: SchemaObject): void {
  if (value === undefined || isIdle(keyword, value, schema)) return;
  const check = Object.hasOwn(enforcedKeywords, keyword) ? enforcedKeywords[keyword] : undefined;
  if (check === undefined) {
    if (annotations.has(keyword) || keyword.startsWith('x-')) return;
    throw new GrammarError('unsupported', `'${keyword}' cannot be enforced`, keyword);
  }
  if (!check(value))
    throw malformed(`'${keyword}' of the schema has a value that JSON Schema does not allow`);
  if (keyword === 'uniqueItems' && value === true && !hasOneItem(schema)) {
    throw new GrammarError(
      'unsupported',
      "'uniqueItems' cannot be enforced where there is more than one item",
      keyword,
    );
  }
}

/** In older drafts a fragment is a name. */
function isBase(id: unknown): boolean {
  return typeof id === 'string' && !id.startsWith('#');
}

function isIdle(keyword: string, value: unknown, schema: SchemaObject): boolean {
  if (keyword === 'then' || keyword === 'else') return schema.if === undefined;
  if (keyword === 'minContains' || keyword === 'maxContains') return schema.contains === undefined;
  if (keyword === 'unevaluatedProperties' || keyword === 'unevaluatedItems') return value === true;
  if (keyword === 'nullable') return value === false;
  if (keyword === 'not') return value === false;
  return false;
}

function hasOneItem({ maxItems, prefixItems, items }: SchemaObject): boolean {
  if (typeof maxItems === 'number' && maxItems <= 1) return true;
  return items === false && (prefixItems === undefined || (prefixItems as unknown[]).length <= 1);
}

const holdSchemas = ['allOf', 'anyOf', 'oneOf', 'prefixItems'];
const holdNamedSchemas = ['properties', 'patternProperties', '$defs', 'definitions'];
const holdOneSchema = ['additionalProperties', 'propertyNames', 'items'];

function innerSchemas(keyword: string, value: unknown): Schema[] {
  if (holdSchemas.includes(keyword)) return value as Schema[];
  if (holdOneSchema.includes(keyword)) return [value as Schema];
  if (!holdNamedSchemas.includes(keyword) || !isObject(value)) return [];
  return Object.values(value).filter(isSchema) as Schema[];
}

export function isObject(value: unknown): value is SchemaObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function decodeFragment(fragment: string): string {
  try {
    return decodeURIComponent(fragment);
  } catch {
    return fragment;
  }
}
