// A JSON Schema document: follows references, reads each schema once, and notes what of it is not enforced.

import { GrammarError, malformed } from '../grammar-error.ts';
import { readSchema } from './read-schema.ts';
import { isObject, type Reference, type Schema, type SchemaObject } from './schema.ts';

type RawSchema = Readonly<Record<string, unknown>>;

const MAX_DEPTH = 200;
const MAX_SCHEMAS = 20_000;
/** Where the document has no `$id`. */
const NO_BASE = 'schema:/';

const unknownSchema: SchemaObject = { isUnknown: true };

/** What of a schema is not enforced. */
export interface SchemaNotes {
  /** Keywords and formats that are not known and so say nothing about what is valid. */
  readonly unknown: Set<string>;
  /** Keywords that the grammar does not enforce, and why. Empty where it allows valid values alone. */
  readonly notEnforced: Set<string>;
}

export class SchemaDocument {
  readonly root: Schema;
  readonly notes: SchemaNotes = { unknown: new Set(), notEnforced: new Set() };
  /** Where a keyword depends on which others were applied, all that apply must be known. */
  tracksEvaluation = false;
  readonly isStrict: boolean;
  readonly #raw: unknown;
  readonly #resources = new Map<string, unknown>();
  readonly #anchors = new Map<string, unknown>();
  readonly #dynamicAnchors = new Map<string, number>();
  readonly #bases = new Map<object, string>();
  readonly #schemas = new Map<object, SchemaObject>();
  readonly #numbers = new Map<Schema, number>();
  readonly #unions = new Map<string, SchemaObject>();
  #depth = 0;

  /** `strict`: what cannot be enforced is refused. */
  constructor(root: unknown, strict = true) {
    if (typeof root !== 'boolean' && !isObject(root))
      throw malformed('a schema must be an object, true or false');
    this.#raw = root;
    this.isStrict = strict;
    this.#locate(root, NO_BASE, 0);
    this.root = this.#read(root);
  }

  /** Throws where the document is strict; else what follows allows more than is valid, and a note says so. */
  cannotEnforce(keyword: string, why: string): void {
    if (this.isStrict)
      throw new GrammarError('unsupported', `'${keyword}' cannot be enforced ${why}`.trim(), keyword);
    this.notes.notEnforced.add(`'${keyword}' ${why}`.trim());
  }

  /** The same for a part that throws. */
  enforced<Part>(what: string, make: () => Part): Part | undefined {
    if (this.isStrict) return make();
    try {
      return make();
    } catch (error) {
      if (!(error instanceof GrammarError) || error.problem === 'malformed') throw error;
      this.notes.notEnforced.add(`${what}: ${error.message}`);
      return undefined;
    }
  }

  numberOf(schema: Schema): number {
    const known = this.#numbers.get(schema);
    if (known !== undefined) return known;
    this.#numbers.set(schema, this.#numbers.size);
    return this.#numbers.size - 1;
  }

  /** The same object each time. */
  anyOf(schemas: readonly Schema[]): SchemaObject {
    const key = schemas.map((schema) => this.numberOf(schema)).join();
    const known = this.#unions.get(key) ?? { anyOf: schemas };
    this.#unions.set(key, known);
    return known;
  }

  resolve({ text, base, dynamic }: Reference): Schema {
    const [address, fragment] = addressOf(text, base);
    if (!this.#resources.has(address)) {
      this.cannotEnforce(
        dynamic ? '$dynamicRef' : '$ref',
        `where it leads outside of the schema: '${text.slice(0, 80)}'`,
      );
      return unknownSchema;
    }
    const isOnly = fragment !== '' || new Set(this.#resources.values()).size === 1;
    if (dynamic && !(isOnly && (this.#dynamicAnchors.get(fragment) ?? 0) <= 1)) {
      this.cannotEnforce('$dynamicRef', `where several schemas have the anchor '${fragment.slice(0, 80)}'`);
      return unknownSchema;
    }
    const found =
      fragment === '' || fragment.startsWith('/')
        ? pointed(this.#resources.get(address), fragment)
        : this.#anchors.get(`${address}#${fragment}`);
    if (typeof found !== 'boolean' && !isObject(found))
      throw malformed(`$ref: there is no schema at '${text.slice(0, 80)}'`);
    return this.#read(found);
  }

  /** Finds the addresses of schemas and anchors. */
  #locate(raw: unknown, outer: string, depth: number): void {
    if (!isObject(raw)) return;
    if (depth > MAX_DEPTH)
      throw new GrammarError('too-large', `the schema is more than ${MAX_DEPTH} levels deep`);
    const { $id, $anchor, $dynamicAnchor } = raw;
    const base = typeof $id === 'string' ? addressOf($id, outer)[0] || outer : outer;
    if (raw === this.#raw || base !== outer) this.#resources.set(base, raw);
    if (raw === this.#raw) this.#resources.set(NO_BASE, raw);
    this.#bases.set(raw, base);
    for (const name of [$anchor, $dynamicAnchor])
      if (typeof name === 'string') this.#anchors.set(`${base}#${name}`, raw);
    if (typeof $dynamicAnchor === 'string')
      this.#dynamicAnchors.set($dynamicAnchor, (this.#dynamicAnchors.get($dynamicAnchor) ?? 0) + 1);
    for (const [keyword, value] of Object.entries(raw))
      for (const inner of innerSchemas(keyword, value)) this.#locate(inner, base, depth + 1);
  }

  #read(raw: unknown): Schema {
    if (typeof raw === 'boolean') return raw;
    const known = this.#schemas.get(raw as object);
    if (known !== undefined) return known;
    if (this.#depth > MAX_DEPTH)
      throw new GrammarError('too-large', `the schema is more than ${MAX_DEPTH} levels deep`);
    if (this.#schemas.size > MAX_SCHEMAS)
      throw new GrammarError('too-large', `the schema consists of more than ${MAX_SCHEMAS} schemas`);
    this.#depth++;
    const read = readSchema(raw as RawSchema, {
      base: this.#bases.get(raw as object) ?? NO_BASE,
      inner: (inner) => this.#read(inner),
      unknown: (keyword) => this.notes.unknown.add(`'${keyword.slice(0, 40)}'`),
    });
    this.#depth--;
    if (read.unevaluatedProperties !== undefined || read.unevaluatedItems !== undefined)
      this.tracksEvaluation = true;
    this.#schemas.set(raw as object, read);
    this.numberOf(read);
    return read;
  }
}

const holdNamedSchemas = [
  'properties',
  'patternProperties',
  'dependentSchemas',
  'dependencies',
  '$defs',
  'definitions',
];
const holdSchemas = [
  'allOf',
  'anyOf',
  'oneOf',
  'not',
  'if',
  'then',
  'else',
  'additionalProperties',
  'unevaluatedProperties',
  'propertyNames',
  'prefixItems',
  'items',
  'additionalItems',
  'unevaluatedItems',
  'contains',
];

function innerSchemas(keyword: string, value: unknown): readonly unknown[] {
  if (holdSchemas.includes(keyword)) return [value].flat();
  return holdNamedSchemas.includes(keyword) && isObject(value) ? Object.values(value) : [];
}

/** The address without its fragment, and the fragment. */
function addressOf(reference: string, base: string): [address: string, fragment: string] {
  const [before = '', ...after] = reference.split('#');
  const fragment = decoded(after.join('#'));
  if (before === '') return [base, fragment];
  try {
    return [new URL(before, base).href, fragment];
  } catch {
    return [before, fragment];
  }
}

function pointed(root: unknown, pointer: string): unknown {
  const steps = pointer
    .split('/')
    .slice(1)
    .map((step) => step.replaceAll('~1', '/').replaceAll('~0', '~'));
  return steps.reduce<unknown>(
    (value, step) =>
      typeof value === 'object' && value !== null && Object.hasOwn(value, step)
        ? (value as Record<string, unknown>)[step]
        : undefined,
    root,
  );
}

function decoded(fragment: string): string {
  try {
    return decodeURIComponent(fragment);
  } catch {
    return fragment;
  }
}
