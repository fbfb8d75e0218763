// Reduces several schemas to alternatives, each a list of plain schemas that all hold: references are followed, `allOf`
// joined, and what combines, denies or depends on schemas is multiplied out.

import { GrammarError, malformed } from '../grammar-error.ts';
import { type Negations, without } from './negation.ts';
import { allKinds, type Conjunction, type Schema, type SchemaObject } from './schema.ts';
import type { SchemaDocument } from './schema-document.ts';
import { type Held, unevaluatedRules } from './unevaluated.ts';

const MAX_ALTERNATIVES = 1000;
/** Without a result: a bound of time. */
const MAX_EXPANSIONS = 20_000;
/** Of `anyOf`, where it matters which of its schemas hold. */
const MAX_SUBSETS_OF = 8;

type Open = { readonly schema: Schema } & Pick<Held, 'above' | 'evaluates'>;
type Options = readonly (readonly Open[])[];
/** Its options, given what holds in any case. */
type Disjunction = (held: readonly Held[]) => Options;

export type Combinations = 'all' | 'options' | 'none';

export interface Expansion {
  readonly document: SchemaDocument;
  readonly negations: Negations;
  /** Which keywords are multiplied out: all, or `anyOf` and `oneOf` as if it were `anyOf`, or none. */
  readonly combinations?: Combinations;
  /** Whether no value satisfies all plain schemas and the two others. Absent: `oneOf` is as `anyOf`. */
  readonly excludes?: (plain: readonly SchemaObject[], a: Schema, b: Schema) => boolean;
}

export function alternativesOf(conjunction: Conjunction, expansion: Expansion): SchemaObject[][] {
  return new Alternatives(expansion).of(conjunction);
}

class Alternatives {
  readonly #expansion: Expansion;
  readonly #found: SchemaObject[][] = [];
  #expansions = 0;

  constructor(expansion: Expansion) {
    this.#expansion = expansion;
  }

  of(conjunction: Conjunction): SchemaObject[][] {
    const open = conjunction.map((schema) => ({ schema, above: [], evaluates: true }));
    this.#expand(open, [], []);
    return this.#found;
  }

  #expand(open: readonly Open[], before: readonly Held[], pending: readonly Disjunction[]): void {
    if (++this.#expansions > MAX_EXPANSIONS || this.#found.length >= MAX_ALTERNATIVES) throw tooMany();
    const held = [...before];
    const later = [...pending];
    if (!this.#hold([...open], held, later)) return;
    const [next, ...rest] = later;
    if (next === undefined) {
      const { document, combinations = 'all' } = this.#expansion;
      const plain = held.map(({ schema }) => schema);
      if (document.tracksEvaluation && combinations === 'all')
        plain.push(...unevaluatedRules(held, document));
      if (!isContradiction(plain)) this.#found.push(plain);
      return;
    }
    for (const option of next(held)) this.#expand(option, held, rest);
  }

  /** Adds all that holds in any case; false where that cannot be. */
  #hold(open: Open[], held: Held[], later: Disjunction[]): boolean {
    const { document } = this.#expansion;
    const seen = new Set(held.map(({ schema }) => schema));
    for (let next = open.shift(); next !== undefined; next = open.shift()) {
      const { schema, above, evaluates } = next;
      if (schema === false) return false;
      if (schema === true) continue;
      if (above.includes(schema)) throw endless();
      if (seen.has(schema) && !document.tracksEvaluation) continue;
      seen.add(schema);
      held.push({ schema, above, evaluates });
      if (!hasKinds(held)) return false;
      const below = [...above, schema];
      const inner = (one: Schema): Open => ({ schema: one, above: below, evaluates });
      const { references = [], allOf = [] } = schema;
      open.unshift(...references.map((one) => inner(document.resolve(one))), ...allOf.map(inner));
      later.push(...this.#disjunctions(schema, inner));
    }
    return true;
  }

  #disjunctions(schema: SchemaObject, inner: (schema: Schema) => Open): Disjunction[] {
    const { negations, document, combinations = 'all' } = this.#expansion;
    const { anyOf, oneOf, not, if: condition, then, else: otherwise } = schema;
    const silent = (one: Schema): Open => ({ ...inner(one), evaluates: false });
    const found: Disjunction[] = [];
    if (combinations === 'none') return found;
    if (anyOf !== undefined) found.push(() => this.#anyOf(anyOf, inner(true)).map((some) => some.map(inner)));
    if (oneOf !== undefined) found.push((held) => this.#oneOf(oneOf, held, inner));
    if (combinations === 'options') return found;
    if (not !== undefined) found.push(() => negations.alternativesOf(not).map((all) => all.map(silent)));
    if (
      condition !== undefined &&
      (then !== undefined || otherwise !== undefined || document.tracksEvaluation)
    ) {
      found.push(() => [
        [inner(condition), inner(then ?? true)],
        [silent(negations.not(condition)), inner(otherwise ?? true)],
      ]);
    }
    for (const [name, required] of schema.dependentRequired ?? [])
      found.push(() =>
        dependent(name, silent, [silent({ kinds: ['object'], required: [name, ...required] })]),
      );
    for (const [name, one] of schema.dependentSchemas ?? [])
      found.push(() =>
        dependent(name, silent, [silent({ kinds: ['object'], required: [name] }), inner(one)]),
      );
    return found;
  }

  /** Where it matters which schemas hold, every set of them; what holds besides allows no less. */
  #anyOf(anyOf: readonly Schema[], { above }: Open): (readonly Schema[])[] {
    const matters = above.some(
      ({ unevaluatedItems, unevaluatedProperties }) =>
        (unevaluatedItems ?? unevaluatedProperties) !== undefined,
    );
    const { combinations = 'all' } = this.#expansion;
    if (!matters || combinations !== 'all' || anyOf.length < 2) return anyOf.map((one) => [one]);
    if (anyOf.length > MAX_SUBSETS_OF) throw tooMany();
    return Array.from({ length: 2 ** anyOf.length - 1 }, (_, set) =>
      anyOf.filter((_, at) => (((set + 1) >> at) & 1) === 1),
    );
  }

  /** One schema and none of those that a value may be valid against at the same time. */
  #oneOf(oneOf: readonly Schema[], held: readonly Held[], inner: (schema: Schema) => Open): Options {
    const { excludes, negations, combinations = 'all' } = this.#expansion;
    const plain = held.map(({ schema }) => schema);
    return oneOf.map((one, at) => {
      const others = oneOf.filter(
        (other, index) => combinations === 'all' && index !== at && excludes?.(plain, one, other) === false,
      );
      return [inner(one), ...others.map((other) => ({ ...inner(negations.not(other)), evaluates: false }))];
    });
  }
}

/** The property is absent, or the schemas hold. */
function dependent(name: string, silent: (schema: Schema) => Open, schemas: readonly Open[]): Options {
  const { properties } = without(name);
  return [[silent({ properties } as SchemaObject)], schemas];
}

function hasKinds(held: readonly Held[]): boolean {
  return allKinds.some((kind) =>
    held.every(({ schema: { kinds } }) => kinds === undefined || kinds.includes(kind)),
  );
}

/** Cheaply: a property that must be there and cannot. */
function isContradiction(plain: readonly SchemaObject[]): boolean {
  const absent = new Set(
    plain.flatMap(({ properties = [] }) =>
      [...properties].flatMap(([name, one]) => (one === false ? [name] : [])),
    ),
  );
  if (absent.size === 0) return false;
  const isObject = plain.some(({ kinds }) => kinds?.every((kind) => kind === 'object'));
  return isObject && plain.some(({ required }) => required?.some((name) => absent.has(name)));
}

function tooMany(): GrammarError {
  return new GrammarError(
    'too-large',
    `the schema has more than ${MAX_ALTERNATIVES} alternatives in one place`,
  );
}

export function endless(): GrammarError {
  return malformed("'$ref' leads back to its own schema without a property or an item between");
}
