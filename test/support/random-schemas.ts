// Random JSON schemas of what is enforced, and random documents for them: some valid, some nearly so. An independent
// validator says which are which.

export type Random = (below: number) => number;

export function seededRandom(seed: number): Random {
  let state = seed >>> 0;
  return (below) => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) % below;
  };
}

type Schema = boolean | Record<string, unknown>;

const patterns = [
  '^[a-z]+$',
  '^[A-Z][a-z]{0,5}$',
  'ab',
  '^\\d{3}-\\d{2}$',
  '^(red|green) (fox|hen)$',
  '[éü]$',
  '^.{2,4}$',
  '^x?$',
  '\\s',
  '^(?:[ab]|ab)*$',
  'a$|^b',
  '^[^a-z"\\\\]{1,3}$',
  '\\p{Lu}',
  '\\bab',
  '^(?!a)[a-z]+',
];
const formats = ['date', 'time', 'date-time', 'uuid', 'ipv4', 'ipv6', 'email', 'hostname', 'duration', 'uri'];
/** Also such as every object of JavaScript has, and such as must be escaped. */
const names = [
  'a',
  'b',
  'name',
  'id',
  'x y',
  'été',
  'q"t',
  'n1',
  'n2',
  '',
  'constructor',
  'isPrototypeOf',
  '\\\n',
  '1',
];
const words = [
  '',
  'a',
  'ab',
  'abc',
  'Hello',
  'red fox',
  'green hen',
  '123-45',
  'été',
  'ü',
  'x',
  'q"\\\n',
  '😀',
  '😀a\u0001',
  'Z z',
  '/',
];

export class SchemaMaker {
  readonly #random: Random;

  constructor(random: Random) {
    this.#random = random;
  }

  schema(depth: number): Schema {
    const makers = [
      () => this.#string(),
      () => this.#number(),
      () => this.#listed(),
      () => ({ type: this.#one(['null', 'boolean', ['string', 'null'], ['integer', 'boolean']]) }),
    ];
    if (depth > 0) {
      makers.push(
        () => this.#object(depth),
        () => this.#object(depth),
        () => this.#array(depth),
        () => this.#combined(depth),
        () => this.#referring(depth),
      );
    }
    if (this.#random(25) === 0) return this.#one<Schema>([true, {}]);
    const made = this.#one(makers)();
    if (depth === 0 || this.#random(5) > 0) return made;
    const all: Record<string, unknown> = { ...made, ...this.#condition(depth) };
    const { prefixItems, ...rest } = all;
    // The judge takes an empty array for one that contains something where there are `prefixItems`.
    return prefixItems === undefined || Object.hasOwn(rest, 'contains') ? rest : { ...rest, prefixItems };
  }

  /** What denies schemas, or depends on them. */
  #condition(depth: number): Record<string, unknown> {
    const inner = () => this.schema(depth - 2);
    const name = () => this.#one(names.filter((one) => one !== ''));
    return this.#one<() => Record<string, unknown>>([
      () => ({ not: inner() }),
      () => ({ not: this.#object(depth - 1) }),
      () => ({ not: this.#array(depth - 1) }),
      () => ({ if: inner(), [this.#one(['then', 'else'])]: inner() }),
      () => ({ if: this.#object(depth - 1), ['then' as string]: this.#object(depth - 1), else: inner() }),
      () => ({ dependentRequired: { [name()]: [name()], [name()]: [...new Set([name(), name()])] } }),
      () => ({ dependentSchemas: { [name()]: inner() } }),
      () => ({
        contains: inner(),
        ...this.#one([{}, { minContains: 0 }, { minContains: 2 }, { maxContains: 1 }]),
      }),
      () => ({ uniqueItems: true, items: this.#listed() }),
      () => ({
        unevaluatedProperties: this.#one<Schema>([false, { type: 'string' }]),
        anyOf: [this.#object(depth - 1), inner()],
      }),
      () => ({ unevaluatedItems: false, allOf: [this.#array(depth - 1)] }),
    ])();
  }

  #string(): Record<string, unknown> {
    const schema: Record<string, unknown> = this.#random(8) === 0 ? {} : { type: 'string' };
    const kind = this.#random(6);
    if (kind === 0) schema.pattern = this.#one(patterns);
    if (kind === 1) schema.format = this.#one(formats);
    if (kind === 2 || this.#random(5) === 0) schema.minLength = this.#random(4);
    if (kind === 2 || this.#random(5) === 0) schema.maxLength = 2 + this.#random(7);
    // Says nothing about texts.
    if (this.#random(12) === 0)
      Object.assign(schema, this.#one([{ minimum: 3 }, { maxItems: 0 }, { required: ['a'] }]));
    return schema;
  }

  #number(): Record<string, unknown> {
    const type = this.#one(['integer', 'number', 'integer']);
    const schema: Record<string, unknown> = { type };
    const bound = () =>
      this.#one([
        ...[0, 1, -1, 5, 10, 99, 100, -7, 255, 0.5, -2.25, 1e21, 1e-7, 12345.678, -1e9],
        ...[-0, 1e308, -1e308, 5e-324, Number.MAX_VALUE, 2 ** 53, 123456789.123, 0.1 + 0.2, 1e100, -1e-300],
      ]);
    if (this.#random(2) === 0) schema[this.#one(['minimum', 'exclusiveMinimum'])] = bound();
    if (this.#random(2) === 0) schema[this.#one(['maximum', 'exclusiveMaximum'])] = bound();
    if (this.#random(6) === 0) schema.multipleOf = this.#one([1, 2, 3, 5, 7, 10]);
    return schema;
  }

  #listed(): Record<string, unknown> {
    const values = Array.from({ length: 1 + this.#random(4) }, () => this.value(2));
    const schema: Record<string, unknown> = this.#random(3) === 0 ? { const: values[0] } : { enum: values };
    if (this.#random(5) === 0) schema.type = this.#one(['string', 'integer', 'object', 'number']);
    if (this.#random(5) === 0)
      Object.assign(schema, this.#one([{ minLength: 2 }, { maximum: 7 }, { minItems: 1 }]));
    if (this.#random(8) === 0)
      Object.assign(schema, { properties: { a: { type: 'null' } }, items: { type: 'string' } });
    return schema;
  }

  #object(depth: number): Record<string, unknown> {
    const own = names.filter(() => this.#random(3) === 0);
    const schema: Record<string, unknown> = {};
    if (this.#random(8) !== 0) schema.type = 'object';
    if (own.length > 0)
      schema.properties = Object.fromEntries(own.map((name) => [name, this.schema(depth - 1)]));
    // The judge overlooks a missing name that is empty.
    schema.required = own.filter((name) => name !== '' && this.#random(2) === 0);
    if (this.#random(12) === 0) (schema.required as string[]).push('other');
    const rest = this.#random(5);
    if (rest <= 1) schema.additionalProperties = false;
    if (rest === 2) schema.additionalProperties = this.schema(depth - 1);
    if (this.#random(6) === 0)
      schema.patternProperties = Object.fromEntries(
        ['^n', 'x', '^[a-c]', '^$', '["\\\\]', 'o$'].flatMap((pattern) =>
          this.#random(3) === 0 ? [[pattern, this.schema(depth - 1)]] : [],
        ),
      );
    if (this.#random(10) === 0)
      schema.propertyNames = this.#one([
        { maxLength: 4 },
        { pattern: '^[a-zé]' },
        { enum: names },
        { const: 'a' },
        { allOf: [{ minLength: 1 }, { not: false, pattern: '^[^z]*$' }] },
        { type: 'string' },
        true,
        false,
      ]);
    if (this.#random(8) === 0) schema.maxProperties = this.#random(4);
    if (this.#random(8) === 0) schema.minProperties = this.#random(3);
    return schema;
  }

  #array(depth: number): Record<string, unknown> {
    const schema: Record<string, unknown> = { type: 'array' };
    if (this.#random(3) > 0) schema.items = this.schema(depth - 1);
    if (this.#random(4) === 0) {
      schema.prefixItems = Array.from({ length: 1 + this.#random(2) }, () => this.schema(depth - 1));
      if (this.#random(3) === 0) schema.items = false;
    }
    if (this.#random(3) === 0) schema.minItems = this.#random(3);
    if (this.#random(2) === 0) schema.maxItems = this.#random(5);
    return schema;
  }

  #combined(depth: number): Record<string, unknown> {
    const some = () => Array.from({ length: 1 + this.#random(3) }, () => this.schema(depth - 1));
    const schema: Record<string, unknown> = { [this.#one(['anyOf', 'anyOf', 'allOf', 'oneOf'])]: some() };
    if (this.#random(4) === 0) Object.assign(schema, this.#object(depth - 1));
    return schema;
  }

  #referring(depth: number): Record<string, unknown> {
    const node = this.#object(depth - 1);
    node.type = 'object';
    const properties = (node.properties ?? {}) as Record<string, unknown>;
    node.properties = { ...properties, next: { anyOf: [{ $ref: '#/$defs/node' }, { type: 'null' }] } };
    // Only the root's definitions are found, so that a reference further down stands for itself.
    if (depth < 3) return { ...node, properties };
    const beside = this.#random(3) === 0 ? this.#object(1) : {};
    return { ...beside, $ref: '#/$defs/node', $defs: { node } };
  }

  /** A document for the schema, mostly valid, with properties in its order. */
  document(schema: Schema, depth: number, root: Schema = schema): unknown {
    if (typeof schema === 'boolean' || this.#random(15) === 0) return this.value(depth);
    const fit = this.#fitting(schema, depth, root);
    return fit === undefined ? this.value(depth) : fit;
  }

  #fitting(schema: Record<string, unknown>, depth: number, root: Schema): unknown {
    if (typeof schema.$ref === 'string') {
      const { $defs } = root as { $defs?: { node: Schema } };
      return depth <= 0 ? null : this.document($defs?.node ?? true, depth - 1, root);
    }
    if (Object.hasOwn(schema, 'const')) return schema.const;
    if (Array.isArray(schema.enum)) return this.#one(schema.enum as unknown[]);
    for (const keyword of ['anyOf', 'oneOf', 'allOf']) {
      if (Array.isArray(schema[keyword]))
        return this.document(this.#one(schema[keyword] as Schema[]), depth, root);
    }
    const types = (Array.isArray(schema.type) ? schema.type : [schema.type]) as (string | undefined)[];
    switch (
      this.#one(types) ??
      (schema.properties ? 'object' : schema.pattern || schema.minLength ? 'string' : undefined)
    ) {
      case 'null':
        return null;
      case 'boolean':
        return this.#random(2) === 0;
      case 'integer':
      case 'number':
        return this.#numberFor(schema);
      case 'string':
        return this.#textFor(schema);
      case 'array':
        return this.#arrayFor(schema, depth, root);
      case 'object':
        return this.#objectFor(schema, depth, root);
      default:
        return undefined;
    }
  }

  #numberFor({
    type,
    minimum,
    exclusiveMinimum,
    maximum,
    exclusiveMaximum,
    multipleOf,
  }: Record<string, unknown>): number {
    const low = (minimum ?? exclusiveMinimum ?? -50) as number;
    const high = (maximum ?? exclusiveMaximum ?? low + 100) as number;
    const near = this.#one([
      low,
      high,
      low + 1,
      high - 1,
      low + (high - low) / 3,
      low - 1,
      high + 1,
      0,
      1e21,
      1e-7,
      0.1 + 0.2,
      5e-324,
    ]);
    const whole = type === 'integer' && this.#random(6) > 0 ? Math.round(near) : near;
    return multipleOf === undefined
      ? whole
      : Math.round(whole / (multipleOf as number)) * (multipleOf as number) + (this.#random(6) === 0 ? 1 : 0);
  }

  #textFor({ pattern, format, minLength, maxLength }: Record<string, unknown>): string {
    const fitting: Record<string, readonly string[]> = {
      '^[a-z]+$': ['abc', 'z'],
      '^[A-Z][a-z]{0,5}$': ['Hello', 'Q'],
      ab: ['xabx', 'ab'],
      '^\\d{3}-\\d{2}$': ['123-45'],
      '[éü]$': ['caf\u00e9', 'ü'],
      '^.{2,4}$': ['ab', '😀b', 'abcd'],
      '\\s': ['a b', '\n'],
      date: ['2024-02-29', '2023-02-29', '1999-12-31'],
      time: ['12:30:59Z', '23:59:59.5+02:00', '25:00:00Z'],
      'date-time': ['2024-02-29T12:00:00Z', '2024-13-01T00:00:00Z'],
      uuid: ['123e4567-e89b-12d3-a456-426614174000', 'x'],
      ipv4: ['127.0.0.1', '256.1.1.1'],
      ipv6: ['::1', '2001:db8::8a2e:370:7334', '1::2::3'],
      email: ['a.b@example.org', 'no'],
      hostname: ['example.org', '-x'],
      duration: ['P1D', 'PT5M', 'P', 'P2Y3M'],
      uri: ['https://example.org/a?b=c#d', 'x'],
    };
    const options = fitting[(pattern ?? format ?? '') as string];
    if (options !== undefined && this.#random(5) > 0) return this.#one(options);
    const long = 'lorem ipsum'.slice(
      0,
      Math.max((minLength as number) ?? 0, Math.min((maxLength as number) ?? 5, 5)),
    );
    return this.#random(2) === 0 ? long : this.#one(words);
  }

  #arrayFor(
    { items, prefixItems, minItems, maxItems }: Record<string, unknown>,
    depth: number,
    root: Schema,
  ): unknown[] {
    const least = (minItems as number) ?? 0;
    const length =
      Math.min(least + this.#random(3), (maxItems as number) ?? 5) + (this.#random(12) === 0 ? 1 : 0);
    return Array.from({ length }, (_, at) =>
      this.document(((prefixItems as Schema[])?.[at] ?? items ?? true) as Schema, depth - 1, root),
    );
  }

  #objectFor(schema: Record<string, unknown>, depth: number, root: Schema): Record<string, unknown> {
    const {
      properties = {},
      required = [],
      additionalProperties,
    } = schema as {
      properties?: Record<string, Schema>;
      required?: string[];
      additionalProperties?: Schema;
    };
    const result: Record<string, unknown> = {};
    for (const [name, own] of Object.entries(properties)) {
      if ((required.includes(name) && this.#random(15) > 0) || this.#random(2) === 0) {
        result[name] = this.document(own, depth - 1, root);
      }
    }
    for (const name of required) if (!Object.hasOwn(properties, name)) result[name] = this.value(0);
    if (this.#random(3) === 0) {
      const name = this.#one(['extra', 'nx', 'bb', '\u00e9x', 'zz zz', '', 'hasOwnProperty', '"', 'o']);
      if (!Object.hasOwn(result, name))
        result[name] = this.document(additionalProperties ?? true, depth - 1, root);
    }
    return result;
  }

  /** Anything. */
  value(depth: number): unknown {
    const kind = this.#random(depth > 0 ? 7 : 5);
    if (kind === 0) return null;
    if (kind === 1) return this.#random(2) === 0;
    if (kind === 2) return this.#one([0, 1, -1, 7, 42, 0.5, -2.25, 1e21, 1.5e-7, 100, 255]);
    if (kind <= 4) return this.#one(words);
    if (kind === 5) return Array.from({ length: this.#random(3) }, () => this.value(depth - 1));
    return Object.fromEntries(names.slice(0, this.#random(3)).map((name) => [name, this.value(depth - 1)]));
  }

  #one<Value>(values: readonly Value[]): Value {
    return values[this.#random(values.length)] as Value;
  }
}
