// OpenAPI's schemas as a reader needs them: the fields with their types, and a body to begin with.

export interface Schema {
  readonly type?: string;
  readonly const?: unknown;
  readonly enum?: readonly unknown[];
  readonly anyOf?: readonly Schema[];
  readonly oneOf?: readonly Schema[];
  readonly items?: Schema;
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly required?: readonly string[];
  readonly description?: string;
  readonly default?: unknown;
  readonly format?: string;
  readonly minimum?: number;
  readonly maximum?: number;
  readonly exclusiveMinimum?: number;
}

export interface Field {
  readonly path: string;
  readonly type: string;
  readonly isRequired: boolean;
  readonly meaning: string;
}

/** Deeper ones are seldom read, and schemas may contain themselves. */
const DEEPEST = 4;

export function fieldsOf(schema: Schema, prefix = '', depth = 0): Field[] {
  if (depth >= DEEPEST) return [];
  const found = new Map<string, Field>();
  for (const variant of variantsOf(schema)) {
    const item = variant.type === 'array' ? (variant.items ?? {}) : variant;
    for (const object of variantsOf(item)) {
      for (const [name, field] of Object.entries(object.properties ?? {})) {
        const path = `${prefix}${name}${field.type === 'array' ? '[]' : ''}`;
        const isRequired = object.required?.includes(name) ?? false;
        const own = { path, type: typeOf(field), isRequired, meaning: meaningOf(field) };
        for (const one of [own, ...fieldsOf(field, `${path}.`, depth + 1)])
          if (!found.has(one.path)) found.set(one.path, one);
      }
    }
  }
  return [...found.values()];
}

function variantsOf(schema: Schema): readonly Schema[] {
  return schema.anyOf ?? schema.oneOf ?? [schema];
}

function typeOf(schema: Schema): string {
  if (schema.const !== undefined) return JSON.stringify(schema.const);
  if (schema.enum !== undefined) return schema.enum.map((one) => JSON.stringify(one)).join(' | ');
  const variants = schema.anyOf ?? schema.oneOf;
  if (variants !== undefined) return [...new Set(variants.map(typeOf))].join(' | ');
  if (schema.type === 'array') return `list of ${typeOf(schema.items ?? {})}`;
  return schema.format === 'binary' ? 'file' : (schema.type ?? 'anything');
}

function meaningOf(field: Schema): string {
  const isSafe = (value: number | undefined) =>
    value !== undefined && Math.abs(value) < Number.MAX_SAFE_INTEGER;
  const range = [
    isSafe(field.minimum) ? `from ${field.minimum}` : '',
    isSafe(field.exclusiveMinimum) ? `above ${field.exclusiveMinimum}` : '',
    isSafe(field.maximum) ? `to ${field.maximum}` : '',
  ].filter((part) => part !== '');
  return [field.description ?? '', range.length === 0 ? '' : `(${range.join(' ')})`]
    .filter((part) => part !== '')
    .join(' ');
}

/** The least that has every required field; a reader fills it in. */
export function emptyOf(schema: Schema): unknown {
  const [first = schema] = variantsOf(schema);
  if (first !== schema) return emptyOf(first);
  if (schema.const !== undefined) return schema.const;
  if (schema.default !== undefined) return schema.default;
  if (schema.enum !== undefined) return schema.enum[0];
  switch (schema.type) {
    case 'object':
      return Object.fromEntries(
        Object.entries(schema.properties ?? {})
          .filter(([name]) => schema.required?.includes(name))
          .map(([name, field]) => [name, emptyOf(field)]),
      );
    case 'array':
      return [];
    case 'integer':
    case 'number':
      return Math.max(schema.minimum ?? 1, 1);
    case 'boolean':
      return false;
    default:
      return '';
  }
}
