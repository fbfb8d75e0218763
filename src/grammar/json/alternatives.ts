// Reduces several schemas to alternatives, each a list of schemas that all hold and refer to no others: references
// are followed, `allOf` joined, `anyOf` and `oneOf` multiplied out.

import { GrammarError, malformed } from '../grammar-error.ts';
import type { Schema, SchemaDocument, SchemaObject } from './schema-document.ts';

export type Conjunction = readonly Schema[];

const MAX_ALTERNATIVES = 1000;

/** `isImpossible`: whether no value satisfies all of some schemas. */
export function alternativesOf(
  conjunction: Conjunction,
  document: SchemaDocument,
  isImpossible: (conjunction: Conjunction) => boolean,
): SchemaObject[][] {
  const found: SchemaObject[][] = [];
  const expand = (open: readonly Open[], plain: readonly SchemaObject[], seen: ReadonlySet<Schema>): void => {
    const [next, ...rest] = open;
    if (next === undefined) {
      if (found.length >= MAX_ALTERNATIVES) {
        throw new GrammarError(
          'too-large',
          `the schema has more than ${MAX_ALTERNATIVES} alternatives in one place`,
        );
      }
      found.push([...plain]);
      return;
    }
    const { schema, above } = next;
    if (schema === false) return;
    if (above.includes(schema)) throw endless();
    if (schema === true || seen.has(schema)) {
      expand(rest, plain, seen);
      return;
    }
    const {
      $ref,
      allOf = [],
      anyOf,
      oneOf,
    } = schema as {
      $ref?: string;
      allOf?: Schema[];
      anyOf?: Schema[];
      oneOf?: Schema[];
    };
    if (oneOf !== undefined) checkDisjoint(oneOf, [...open.map((one) => one.schema), ...plain], isImpossible);
    const joined = [...($ref === undefined ? [] : [document.resolve($ref)]), ...allOf];
    for (const one of anyOf ?? [true]) {
      for (const other of oneOf ?? [true]) {
        const inner = [...joined, one, other].map((part) => ({ schema: part, above: [...above, schema] }));
        expand([...inner, ...rest], [...plain, schema], new Set([...seen, schema]));
      }
    }
  };
  expand(
    conjunction.map((schema) => ({ schema, above: [] })),
    [],
    new Set(),
  );
  return found;
}

interface Open {
  readonly schema: Schema;
  readonly above: readonly Schema[];
}

export function endless(): GrammarError {
  return malformed("'$ref' leads back to its own schema without a property or an item between");
}

/** `oneOf` is `anyOf` where no value matches two schemas; otherwise it cannot be enforced. */
function checkDisjoint(
  options: readonly Schema[],
  context: Conjunction,
  isImpossible: (conjunction: Conjunction) => boolean,
): void {
  const around = context.map((schema) =>
    typeof schema === 'object' ? withoutOneOf(schema, options) : schema,
  );
  for (const [at, one] of options.entries()) {
    for (const other of options.slice(at + 1)) {
      if (isImpossible([...around, one, other])) continue;
      const message =
        "'oneOf' cannot be enforced where a value may be valid against two of its schemas; 'anyOf' can";
      throw new GrammarError('unsupported', message, 'oneOf');
    }
  }
}

function withoutOneOf(schema: SchemaObject, options: readonly Schema[]): SchemaObject {
  if (schema.oneOf !== options) return schema;
  const { oneOf: _, ...rest } = schema;
  return rest;
}
