// A JSON Schema as the rest of this folder reads it: keywords of the draft 2020-12 with checked values. How schemas spell
// them, also those of older drafts and of OpenAPI, is read-schema.ts's business.

export type Schema = boolean | SchemaObject;

/** Schemas that all hold. */
export type Conjunction = readonly Schema[];

/** `number` of JSON Schema is an integer or a fraction. */
export type Kind = 'null' | 'boolean' | 'integer' | 'fraction' | 'string' | 'array' | 'object';

export const allKinds: readonly Kind[] = [
  'null',
  'boolean',
  'integer',
  'fraction',
  'string',
  'array',
  'object',
];

export interface Reference {
  readonly text: string;
  /** The address it is relative to. */
  readonly base: string;
  readonly dynamic: boolean;
}

export interface SchemaObject {
  readonly kinds?: readonly Kind[];
  /** Of `enum` and `const`. */
  readonly values?: readonly unknown[];
  readonly references?: readonly Reference[];
  readonly allOf?: readonly Schema[];
  readonly anyOf?: readonly Schema[];
  readonly oneOf?: readonly Schema[];
  readonly not?: Schema;
  readonly if?: Schema;
  readonly then?: Schema;
  readonly else?: Schema;
  readonly properties?: ReadonlyMap<string, Schema>;
  readonly patternProperties?: ReadonlyMap<string, Schema>;
  readonly additionalProperties?: Schema;
  readonly unevaluatedProperties?: Schema;
  readonly propertyNames?: Schema;
  readonly required?: readonly string[];
  readonly minProperties?: number;
  readonly maxProperties?: number;
  readonly dependentRequired?: ReadonlyMap<string, readonly string[]>;
  readonly dependentSchemas?: ReadonlyMap<string, Schema>;
  readonly prefixItems?: readonly Schema[];
  readonly items?: Schema;
  readonly unevaluatedItems?: Schema;
  readonly contains?: Schema;
  readonly minContains?: number;
  readonly maxContains?: number;
  readonly minItems?: number;
  readonly maxItems?: number;
  readonly uniqueItems?: boolean;
  readonly minLength?: number;
  readonly maxLength?: number;
  readonly pattern?: string;
  readonly format?: string;
  /** Of `larkKeyword`. */
  readonly lark?: string;
  readonly minimum?: number;
  readonly maximum?: number;
  readonly exclusiveMinimum?: number;
  readonly exclusiveMaximum?: number;
  readonly multipleOf?: number;
  /** Stands for one that is elsewhere: what is valid against it, or not, is not known. */
  readonly isUnknown?: true;
  /** What must not hold, where no keyword says the contrary; see negation.ts. Made here alone. */
  readonly fails?: SchemaObject;
}

export function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

export function kindOf(value: unknown): Kind {
  if (value === null) return 'null';
  if (Array.isArray(value)) return 'array';
  if (typeof value === 'number') return Number.isInteger(value) ? 'integer' : 'fraction';
  return typeof value as 'boolean' | 'string' | 'object';
}

/** As JSON compares: the order of properties does not matter. */
export function isEqual(a: unknown, b: unknown): boolean {
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

/** The schemas that a property must be valid against. `isMatch`: whether a pattern matches its name. */
export function propertySchemas(
  { properties, patternProperties, additionalProperties }: SchemaObject,
  name: string,
  isMatch: (pattern: string) => boolean,
): Schema[] {
  const found = [...(patternProperties ?? [])].flatMap(([pattern, one]) => (isMatch(pattern) ? [one] : []));
  const own = properties?.get(name);
  if (own !== undefined) found.push(own);
  if (found.length > 0 || additionalProperties === undefined) return found;
  return [additionalProperties];
}

export function itemSchema({ prefixItems, items }: SchemaObject, at: number): Schema | undefined {
  return prefixItems?.[at] ?? items;
}
