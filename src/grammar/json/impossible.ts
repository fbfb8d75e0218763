// Whether no value at all is valid against several schemas at once: for `oneOf`, which can be enforced only where its
// schemas exclude each other. Where it is not certain, the answer is no.

import { alternativesOf, type Conjunction } from './alternatives.ts';
import { numberNode } from './number.ts';
import { listedValues, numberRules, smallest, textLanguage, typesOf } from './plain-schemas.ts';
import type { Schema, SchemaDocument, SchemaObject } from './schema-document.ts';
import { isValid, propertySchemas } from './validate.ts';

const MAX_DEPTH = 6;

export class Impossible {
  readonly #document: SchemaDocument;

  constructor(document: SchemaDocument) {
    this.#document = document;
  }

  is(conjunction: Conjunction, depth = 0): boolean {
    if (depth > MAX_DEPTH) return false;
    // Alternatives within are taken as they come: whether they exclude each other is judged where they stand.
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

/** What they combine has been multiplied out already. */
function withoutCombinations(schema: SchemaObject): SchemaObject {
  const { $ref: _ref, allOf: _allOf, anyOf: _anyOf, oneOf: _oneOf, ...own } = schema;
  return own;
}
