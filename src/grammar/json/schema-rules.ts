// Translates a JSON Schema to rules that match exactly the valid values, with properties in the schema's order and
// white space wherever JSON has it. Of a document that is not strict they may match more, and its notes say so.

import { tooLarge } from '../grammar-error.ts';
import { larkNode } from '../lark.ts';
import { type CharacterDfa, textsDfa } from '../regular/character-dfa.ts';
import type { Node, RuleBook } from '../rules.ts';
import { alternativesOf, type Combinations } from './alternatives.ts';
import { arrayRule } from './array-rules.ts';
import { Impossible } from './impossible.ts';
import { Negations } from './negation.ts';
import { numberNode } from './number.ts';
import { objectRule } from './object-rules.ts';
import {
  all,
  kindsOf,
  listedValues,
  numberRules,
  type Plain,
  recognizable,
  textLanguage,
  unknownFailure,
} from './plain-schemas.ts';
import type { RuleMaker } from './rule-maker.ts';
import { type Conjunction, isObject, type Kind, type Schema } from './schema.ts';
import type { SchemaDocument } from './schema-document.ts';
import { objectNode, tupleNode } from './shapes.ts';
import { formatDfa, jsonStrings, type StringSpelling } from './strings.ts';
import { MAX_SETS } from './unique-items.ts';
import { isValid } from './validate.ts';

const MAX_RULES = 20_000;

/** `scope` keeps rules of different schemas apart. */
export function schemaNode(
  document: SchemaDocument,
  book: RuleBook,
  scope: string,
  strings: StringSpelling = jsonStrings,
): Node {
  return new SchemaRules(document, book, scope, strings).node([document.root]);
}

class SchemaRules implements RuleMaker {
  readonly document: SchemaDocument;
  readonly book: RuleBook;
  readonly strings: StringSpelling;
  readonly negations: Negations;
  readonly #scope: string;
  readonly #impossible: Impossible;
  #rules = 0;
  #sets = 0;

  constructor(document: SchemaDocument, book: RuleBook, scope: string, strings: StringSpelling) {
    this.document = document;
    this.book = book;
    this.strings = strings;
    this.#scope = scope;
    this.negations = new Negations(document);
    this.#impossible = new Impossible(document, this.negations);
  }

  node(conjunction: Conjunction): Node {
    const schemas = [...new Set(conjunction)].filter((schema) => schema !== true && !isBare(schema));
    if (schemas.length === 0) return this.#anyValue();
    const numbers = schemas.map((schema) => this.document.numberOf(schema)).sort((a, b) => a - b);
    return this.book.named(`${this.#scope}:${numbers.join()}`, () => {
      if (++this.#rules > MAX_RULES) throw tooLarge('the schema');
      return this.#choices(schemas);
    });
  }

  /** Where the document is not strict and the alternatives are too many, fewer keywords tell them apart. */
  alternatives(schemas: Conjunction): Plain[] {
    const found = (combinations: Combinations) =>
      alternativesOf(schemas, {
        document: this.document,
        negations: this.negations,
        combinations,
        excludes: (plain, a, b) => this.#impossible.is(plain, [a, b]),
      });
    const { document } = this;
    const alternatives =
      document.enforced('combined schemas', () => found('all')) ??
      document.enforced('alternatives', () => found('options')) ??
      found('none');
    return document.isStrict
      ? alternatives
      : alternatives.map((plain) => plain.map((one) => recognizable(one, document)));
  }

  spendSets(count: number): boolean {
    this.#sets += count;
    return this.#sets <= MAX_SETS;
  }

  isValid(value: unknown, schemas: Conjunction): boolean {
    return schemas.every((schema) => isValid(value, schema, this.document));
  }

  literal(value: unknown): Node {
    if (typeof value === 'string') return this.strings.of(textsDfa([value]));
    if (Array.isArray(value)) {
      return tupleNode(
        this.book,
        value.map((one) => this.literal(one)),
      );
    }
    if (!isObject(value)) return { kind: 'text', text: JSON.stringify(value) };
    const properties = Object.entries(value).map(([name, one]) => ({
      key: this.strings.key(name),
      value: this.literal(one),
      required: true,
    }));
    return objectNode(this.book, { properties, others: [], least: 0, most: undefined });
  }

  language(dfa: CharacterDfa, most?: number): Node {
    const key = `text ${this.strings.name} ${most ?? ''} ${JSON.stringify(dfa)}`;
    return this.book.named(key, () => this.strings.of(dfa, most));
  }

  #anyValue(): Node {
    return this.book.named(`value ${this.strings.name}`, () => this.#choices([]));
  }

  #choices(schemas: Conjunction): Node {
    const options = this.alternatives(schemas).map((plain) => this.#alternative(plain, schemas));
    return { kind: 'choice', options };
  }

  #alternative(plain: Plain, schemas: Conjunction): Node {
    const values = listedValues(plain);
    if (values !== undefined) return this.#literals(values.filter((value) => this.isValid(value, schemas)));
    for (const fails of all(plain, 'fails')) {
      const keyword = unknownFailure(fails);
      if (keyword !== undefined) this.document.cannotEnforce(keyword, "below 'not'");
    }
    const kinds = kindsOf(plain);
    const options: Node[] = [];
    if (kinds.has('null')) options.push({ kind: 'text', text: 'null' });
    if (kinds.has('boolean')) options.push({ kind: 'text', text: 'true' }, { kind: 'text', text: 'false' });
    if (kinds.has('integer') || kinds.has('fraction')) options.push(this.#number(plain, kinds));
    if (kinds.has('string')) options.push(this.#string(plain));
    if (kinds.has('array')) options.push(arrayRule(plain, this));
    if (kinds.has('object')) options.push(objectRule(plain, this));
    return { kind: 'choice', options };
  }

  #literals(values: readonly unknown[]): Node {
    const texts = values.filter((value) => typeof value === 'string');
    const others = values.filter((value) => typeof value !== 'string');
    const options = others.map((value) => this.literal(value));
    if (texts.length > 0) options.push(this.strings.of(textsDfa(texts)));
    return { kind: 'choice', options };
  }

  #number(plain: Plain, kinds: ReadonlySet<Kind>): Node {
    const rules = numberRules(plain, kinds);
    const make = (one: typeof rules) =>
      this.book.named(
        `number ${JSON.stringify(one)}`,
        () => numberNode(one) ?? { kind: 'choice', options: [] },
      );
    const whole = this.document.enforced("'multipleOf'", () => {
      numberNode(rules);
      return make(rules);
    });
    return whole ?? make({ ...rules, multiplesOf: [], notMultiplesOf: [], excluded: [] });
  }

  #string(plain: Plain): Node {
    const [lark] = all(plain, 'lark');
    if (lark !== undefined) {
      const key = `lark ${this.strings.name} ${lark}`;
      return this.book.named(key, () => this.strings.whole((part) => larkNode(lark, this.book, key, part)));
    }
    for (const format of all(plain, 'format')) {
      if (formatDfa(format) === undefined && !silentFormats.has(format))
        this.document.notes.unknown.add(`'format' ${JSON.stringify(format.slice(0, 40))}`);
    }
    const language = this.document.enforced("'pattern'", () => textLanguage(plain));
    const { least, most, dfa, counts } = language ?? textLanguage(plain.map(lengths));
    if (dfa !== undefined) return this.language(dfa, counts ? most : undefined);
    return this.strings.any(this.book, least, most);
  }
}

/** Of OpenAPI and Pydantic: they say what a text is for. */
const silentFormats: ReadonlySet<string> = new Set([
  'password',
  'path',
  'file-path',
  'directory-path',
  'binary',
  'byte',
]);

function lengths({ minLength, maxLength }: Plain[number]): Plain[number] {
  return {
    ...(minLength === undefined ? {} : { minLength }),
    ...(maxLength === undefined ? {} : { maxLength }),
  };
}

function isBare(schema: Schema): boolean {
  return isObject(schema) && Object.keys(schema).length === 0;
}
