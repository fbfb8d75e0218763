// Whether no value can satisfy some schemas. Where it is not certain, the answer is no.

import { GrammarError } from '../grammar-error.ts';
import { alternativesOf } from './alternatives.ts';
import type { Negations } from './negation.ts';
import { numberNode } from './number.ts';
import {
  itemAt,
  kindsOf,
  largest,
  listedValues,
  numberRules,
  type Plain,
  propertyOf,
  smallest,
  textLanguage,
} from './plain-schemas.ts';
import type { Conjunction, Kind, SchemaObject } from './schema.ts';
import type { SchemaDocument } from './schema-document.ts';
import { isValid } from './validate.ts';

const MAX_DEPTH = 6;
/** Of conjunctions looked at: a bound of time. */
const MAX_LOOKS = 50_000;
const MAX_ITEMS = 16;

export class Impossible {
  readonly #document: SchemaDocument;
  readonly #negations: Negations;
  #looks = 0;

  constructor(document: SchemaDocument, negations: Negations) {
    this.#document = document;
    this.#negations = negations;
  }

  /** `plain` schemas hold besides; what combines schemas in them does not count. */
  is(plain: Plain, conjunction: Conjunction): boolean {
    try {
      return this.#is(plain.map(withoutCombinations), conjunction, 0);
    } catch (error) {
      if (error instanceof GrammarError && error.problem !== 'malformed') return false;
      throw error;
    }
  }

  #is(plain: Plain, conjunction: Conjunction, depth: number): boolean {
    if (depth > MAX_DEPTH || ++this.#looks > MAX_LOOKS) return false;
    const expansion = { document: this.#document, negations: this.#negations };
    const alternatives = alternativesOf(conjunction, expansion);
    return alternatives.every((one) => this.#isImpossible([...plain, ...one], depth));
  }

  #isImpossible(plain: Plain, depth: number): boolean {
    const kinds = kindsOf(plain);
    const values = listedValues(plain);
    if (values !== undefined) {
      const own = plain.map(withoutCombinations);
      return !values.some((value) => own.every((schema) => isValid(value, schema, this.#document)));
    }
    const tests: Readonly<Record<Kind, () => boolean>> = {
      null: () => false,
      boolean: () => false,
      integer: () => numberNode(numberRules(plain, new Set<Kind>(['integer']))) === undefined,
      fraction: () => numberNode(numberRules(plain, new Set<Kind>(['fraction']))) === undefined,
      string: () => noText(plain),
      array: () => this.#noArray(plain, depth),
      object: () => this.#noObject(plain, depth),
    };
    return [...kinds].every((kind) => tests[kind]());
  }

  #noArray(plain: Plain, depth: number): boolean {
    const least = largest(plain, 'minItems');
    if (least > (smallest(plain, 'maxItems') ?? least)) return true;
    return Array.from({ length: Math.min(least, MAX_ITEMS) }, (_, at) => at).some((at) =>
      this.#is([], itemAt(plain, at), depth + 1),
    );
  }

  #noObject(plain: Plain, depth: number): boolean {
    const required = new Set(plain.flatMap((schema) => schema.required ?? []));
    const most = smallest(plain, 'maxProperties');
    if (Math.max(required.size, largest(plain, 'minProperties')) > (most ?? Number.POSITIVE_INFINITY))
      return true;
    return [...required].some((name) => this.#is([], propertyOf(plain, name), depth + 1));
  }
}

function noText(plain: Plain): boolean {
  const { least, most, dfa } = textLanguage(plain);
  return dfa === undefined ? most !== undefined && least > most : dfa.states.length === 0;
}

function withoutCombinations(schema: SchemaObject): SchemaObject {
  const { references: _references, allOf: _allOf, anyOf: _anyOf, oneOf: _oneOf, not: _not, ...own } = schema;
  const { if: _if, dependentRequired: _required, dependentSchemas: _schemas, ...plain } = own;
  const { unevaluatedItems: _items, unevaluatedProperties: _properties, ...rest } = plain;
  return rest;
}
