// `unevaluatedProperties` and `unevaluatedItems` as plain schemas, where it is known which schemas within theirs hold.

import type { Schema, SchemaObject } from './schema.ts';
import type { SchemaDocument } from './schema-document.ts';

/** A plain schema that holds, and for which schemas around it its keywords count as evaluated. */
export interface Held {
  readonly schema: SchemaObject;
  readonly above: readonly SchemaObject[];
  /** Not below `not`. */
  readonly evaluates: boolean;
}

export function unevaluatedRules(held: readonly Held[], document: SchemaDocument): SchemaObject[] {
  const rules: SchemaObject[] = [];
  for (const { schema } of new Map(held.map((one) => [one.schema, one])).values()) {
    const { unevaluatedProperties, unevaluatedItems } = schema;
    if (unevaluatedProperties === undefined && unevaluatedItems === undefined) continue;
    const within = held
      .filter((one) => one.evaluates && (one.schema === schema || one.above.includes(schema)))
      .map((one) => one.schema);
    if (within.some(({ isUnknown }) => isUnknown === true)) continue;
    const inner = within.filter((one) => one !== schema);
    if (unevaluatedProperties !== undefined)
      rules.push(...propertyRule(unevaluatedProperties, within, inner));
    if (unevaluatedItems !== undefined) rules.push(...itemRule(unevaluatedItems, within, inner, document));
  }
  return rules;
}

function propertyRule(
  rule: Schema,
  within: readonly SchemaObject[],
  inner: readonly SchemaObject[],
): SchemaObject[] {
  const isAll =
    within.some(({ additionalProperties }) => additionalProperties !== undefined) ||
    inner.some(({ unevaluatedProperties }) => unevaluatedProperties !== undefined);
  if (isAll) return [];
  const names = within.flatMap(({ properties }) => [...(properties ?? new Map<string, Schema>()).keys()]);
  const patterns = within.flatMap(({ patternProperties }) => [
    ...(patternProperties ?? new Map<string, Schema>()).keys(),
  ]);
  const free = (keys: readonly string[]) => new Map(keys.map((key) => [key, true] as const));
  return [{ properties: free(names), patternProperties: free(patterns), additionalProperties: rule }];
}

function itemRule(
  rule: Schema,
  within: readonly SchemaObject[],
  inner: readonly SchemaObject[],
  document: SchemaDocument,
): SchemaObject[] {
  const isAll =
    within.some(({ items }) => items !== undefined) ||
    inner.some(({ unevaluatedItems }) => unevaluatedItems !== undefined);
  if (isAll) return [];
  const length = Math.max(0, ...within.map(({ prefixItems }) => prefixItems?.length ?? 0));
  // Items that `contains` found are evaluated.
  const found = within.flatMap(({ contains }) => (contains === undefined ? [] : [contains]));
  const items: Schema = found.length === 0 ? rule : document.anyOf([...found, rule]);
  return [{ prefixItems: Array.from({ length }, () => true), items }];
}
