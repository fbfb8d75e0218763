// Translates a JSON Schema to rules that match exactly the valid values, with properties in the schema's order and
// white space wherever JSON has it.

import { GrammarError, tooLarge } from '../grammar-error.ts';
import {
  accepts,
  type CharacterDfa,
  difference,
  intersection,
  lengthDfa,
  textsDfa,
} from '../regular/character-dfa.ts';
import type { Node, RuleBook } from '../rules.ts';
import { alternativesOf, type Conjunction } from './alternatives.ts';
import { numberNode } from './number.ts';
import { Impossible, listedValues, numberRules, smallest, textLanguage, typesOf } from './plain-schemas.ts';
import { isObject, type Schema, SchemaDocument, type SchemaObject } from './schema-document.ts';
import { arrayNode, objectNode, type Property } from './shapes.ts';
import { anyText, jsonStrings, patternDfa, type StringSpelling } from './strings.ts';
import { isValid, propertySchemas } from './validate.ts';

const MAX_RULES = 20_000;
const MAX_KEY_CLASSES = 64;

export function schemaNode(
  schema: unknown,
  book: RuleBook,
  scope: string,
  strings: StringSpelling = jsonStrings,
): Node {
  const document = new SchemaDocument(schema);
  return new SchemaRules(document, book, scope, strings).node([document.root]);
}

class SchemaRules {
  readonly #document: SchemaDocument;
  readonly #book: RuleBook;
  /** Keeps rules of different schemas apart. */
  readonly #scope: string;
  readonly #strings: StringSpelling;
  readonly #impossible: Impossible;
  #rules = 0;

  constructor(document: SchemaDocument, book: RuleBook, scope: string, strings: StringSpelling) {
    this.#document = document;
    this.#book = book;
    this.#scope = scope;
    this.#strings = strings;
    this.#impossible = new Impossible(document);
  }

  node(conjunction: Conjunction): Node {
    const schemas = [...new Set(conjunction)].filter((schema) => schema !== true && !isBare(schema));
    if (schemas.length === 0) return this.#anyValue();
    const numbers = schemas.map((schema) => this.#document.numberOf(schema)).sort((a, b) => a - b);
    return this.#book.named(`${this.#scope}:${numbers.join()}`, () => {
      if (++this.#rules > MAX_RULES) throw tooLarge('the schema');
      return this.#choices(schemas);
    });
  }

  #anyValue(): Node {
    return this.#book.named(`value ${this.#strings.name}`, () => this.#choices([]));
  }

  #choices(schemas: Conjunction): Node {
    const isImpossible = (conjunction: Conjunction) => this.#impossible.is(conjunction);
    const alternatives = alternativesOf(schemas, this.#document, isImpossible);
    const options = alternatives.map((plain) => this.#alternative(plain, schemas));
    return { kind: 'choice', options };
  }

  #alternative(plain: readonly SchemaObject[], schemas: Conjunction): Node {
    const values = listedValues(plain);
    if (values !== undefined) {
      const valid = values.filter((value) =>
        schemas.every((schema) => isValid(value, schema, this.#document)),
      );
      return this.#literals(valid);
    }
    const types = typesOf(plain);
    const options: Node[] = [];
    if (types.has('null')) options.push({ kind: 'text', text: 'null' });
    if (types.has('boolean')) options.push({ kind: 'text', text: 'true' }, { kind: 'text', text: 'false' });
    if (types.has('number') || types.has('integer')) options.push(this.#number(plain, types.has('number')));
    if (types.has('string')) options.push(this.#string(plain));
    if (types.has('array')) options.push(this.#array(plain));
    if (types.has('object')) options.push(this.#object(plain));
    return { kind: 'choice', options };
  }

  #literals(values: readonly unknown[]): Node {
    const texts = values.filter((value) => typeof value === 'string');
    const others = values.filter((value) => typeof value !== 'string');
    const options = others.map((value) => this.#literal(value));
    if (texts.length > 0) options.push(this.#strings.of(textsDfa(texts)));
    return { kind: 'choice', options };
  }

  #literal(value: unknown): Node {
    if (typeof value === 'string') return this.#strings.of(textsDfa([value]));
    if (Array.isArray(value)) {
      const items = value.map((one) => this.#literal(one));
      return arrayNode(this.#book, {
        prefix: items,
        rest: undefined,
        least: items.length,
        most: items.length,
      });
    }
    if (!isObject(value)) return { kind: 'text', text: JSON.stringify(value) };
    const properties = Object.entries(value).map(([name, one]) => ({
      key: this.#strings.key(name),
      value: this.#literal(one),
      required: true,
    }));
    return objectNode(this.#book, { properties, others: [], least: 0, most: undefined });
  }

  #number(plain: readonly SchemaObject[], fractions: boolean): Node {
    const rules = numberRules(plain, fractions);
    const key = `number ${JSON.stringify(rules)}`;
    return this.#book.named(key, () => numberNode(rules) ?? { kind: 'choice', options: [] });
  }

  #string(plain: readonly SchemaObject[]): Node {
    const { least, most, dfa, counts } = textLanguage(plain);
    if (dfa !== undefined) return this.#language(dfa, counts ? most : undefined);
    return this.#strings.any(this.#book, least, most);
  }

  #language(dfa: CharacterDfa, most?: number): Node {
    const key = `text ${this.#strings.name} ${most ?? ''} ${JSON.stringify(dfa)}`;
    return this.#book.named(key, () => this.#strings.of(dfa, most));
  }

  #array(plain: readonly SchemaObject[]): Node {
    const prefixLength = Math.max(
      0,
      ...plain.map(({ prefixItems }) => (prefixItems as Schema[] | undefined)?.length ?? 0),
    );
    const itemAt = (at: number): Conjunction =>
      plain.flatMap(({ prefixItems, items }) => {
        const own = (prefixItems as Schema[] | undefined)?.[at] ?? items;
        return own === undefined ? [] : [own as Schema];
      });
    const least = Math.max(0, ...plain.map(({ minItems }) => (minItems as number | undefined) ?? 0));
    const most = smallest(plain.map(({ maxItems }) => maxItems as number | undefined));
    return arrayNode(this.#book, {
      prefix: Array.from({ length: prefixLength }, (_, at) => this.node(itemAt(at))),
      rest: this.node(itemAt(prefixLength)),
      least,
      most,
    });
  }

  #object(plain: readonly SchemaObject[]): Node {
    const names = propertyNames(plain);
    const required = new Set(plain.flatMap((schema) => (schema.required as string[] | undefined) ?? []));
    const nameRules = plain.flatMap((schema) =>
      schema.propertyNames === undefined ? [] : [schema.propertyNames as Schema],
    );
    const properties: Property[] = names.map((name) => {
      const isName = nameRules.every((rule) => isValid(name, rule, this.#document));
      const schemas = isName ? plain.flatMap((schema) => propertySchemas(name, schema)) : [false];
      return { key: this.#strings.key(name), value: this.node(schemas), required: required.has(name) };
    });
    const others = this.#otherProperties(plain, names, nameRules);
    const least = Math.max(
      0,
      ...plain.map(({ minProperties }) => (minProperties as number | undefined) ?? 0),
    );
    const most = smallest(plain.map(({ maxProperties }) => maxProperties as number | undefined));
    if (least > Math.max(1, required.size) && others.length > 0) {
      const message = "'minProperties' above 1 cannot be enforced where properties may have any name";
      throw new GrammarError('unsupported', message, 'minProperties');
    }
    return objectNode(this.#book, { properties, others, least, most });
  }

  /** Unnamed properties, by the patterns that their names match. */
  #otherProperties(
    plain: readonly SchemaObject[],
    names: readonly string[],
    nameRules: Conjunction,
  ): Omit<Property, 'required'>[] {
    const patterns = [
      ...new Set(plain.flatMap(({ patternProperties }) => Object.keys(patternProperties ?? {}))),
    ];
    const isClosed = plain.some(({ additionalProperties }) => additionalProperties === false);
    if (isClosed && patterns.length === 0) return [];
    if (patterns.length === 0 && names.length === 0 && nameRules.length === 0) {
      return [{ key: this.#strings.any(this.#book, 0, undefined), value: this.node(othersOf(plain, [])) }];
    }
    let classes: { dfa: CharacterDfa; matched: string[] }[] = [
      { dfa: difference(this.#allowedNames(nameRules), textsDfa(names)), matched: [] },
    ];
    for (const pattern of patterns) {
      const dfa = patternDfa(pattern);
      classes = classes.flatMap(({ dfa: all, matched }) => [
        { dfa: intersection(all, dfa), matched: [...matched, pattern] },
        { dfa: difference(all, dfa), matched },
      ]);
      classes = classes.filter(({ dfa: { states } }) => states.length > 0);
      if (classes.length > MAX_KEY_CLASSES) throw tooLarge("'patternProperties'");
    }
    return classes.flatMap(({ dfa, matched }) => {
      const schemas = othersOf(plain, matched);
      if (dfa.states.length === 0 || schemas.includes(false)) return [];
      return [{ key: this.#language(dfa), value: this.node(schemas) }];
    });
  }

  #allowedNames(rules: Conjunction): CharacterDfa {
    if (rules.length === 0) return anyText;
    const [plain, ...more] = alternativesOf(rules, this.#document, (conjunction) =>
      this.#impossible.is(conjunction),
    );
    if (plain === undefined || !typesOf(plain).has('string')) return textsDfa([]);
    if (more.length > 0) {
      throw new GrammarError(
        'unsupported',
        "'propertyNames' cannot be enforced with alternatives",
        'propertyNames',
      );
    }
    const values = listedValues(plain)?.filter((value) => typeof value === 'string');
    const { least, most, dfa = anyText } = textLanguage(plain);
    const long = least === 0 && most === undefined ? dfa : intersection(dfa, lengthDfa(least, most));
    return values === undefined ? long : textsDfa(values.filter((value) => accepts(long, value)));
  }
}

function isBare(schema: Schema): boolean {
  return isObject(schema) && Object.keys(schema).length === 0;
}

function othersOf(plain: readonly SchemaObject[], matched: readonly string[]): Schema[] {
  return plain.flatMap(({ patternProperties = {}, additionalProperties }) => {
    const own = matched.filter((pattern) => Object.hasOwn(patternProperties as object, pattern));
    if (own.length > 0)
      return own.map((pattern) => (patternProperties as Record<string, Schema>)[pattern] as Schema);
    return additionalProperties === undefined ? [] : [additionalProperties as Schema];
  });
}

/** In the order of the schemas; required ones without a schema last. */
function propertyNames(plain: readonly SchemaObject[]): string[] {
  const named = plain.flatMap(({ properties }) => Object.keys(properties ?? {}));
  const required = plain.flatMap((schema) => (schema.required as string[] | undefined) ?? []);
  return [...new Set([...named, ...required])];
}
