// Translates an expression to numbered rules; marks become control tokens where the vocabulary has them.

import { ebnfNode } from './ebnf.ts';
import type { Expression, StringMarks } from './expression.ts';
import { GrammarError, malformed, tooLarge } from './grammar-error.ts';
import { isObject } from './json/schema.ts';
import { SchemaDocument } from './json/schema-document.ts';
import { schemaNode } from './json/schema-rules.ts';
import { jsonStrings, type StringSpelling, stringsWithout } from './json/strings.ts';
import { codePoints, hasHalves } from './regular/code-points.ts';
import { regexDfa } from './regular/regex.ts';
import { type Node, RuleBook, type Rules } from './rules.ts';

type FindControl = (spelling: string) => number | undefined;

type SchemaExpression = Extract<Expression, { kind: 'schema' }>;

const MAX_DEPTH = 200;
const MAX_REPEAT = 20_000;

interface Assembled {
  readonly rules: Rules;
  /** What of schemas is unknown or not enforced. */
  readonly notes: readonly string[];
  /** Whether the rules match more than is valid. */
  readonly isLoose: boolean;
}

export function rulesOf(expression: Expression, findControl: FindControl): Assembled {
  const book = new RuleBook();
  const root = book.reserve();
  const assembly = new Assembly(book, findControl);
  book.define(root, assembly.node(expression, 0));
  return { rules: book.rules, notes: [...assembly.notes], isLoose: assembly.isLoose };
}

class Assembly {
  readonly #book: RuleBook;
  readonly #findControl: FindControl;
  readonly notes = new Set<string>();
  isLoose = false;
  #scopes = 0;

  constructor(book: RuleBook, findControl: FindControl) {
    this.#book = book;
    this.#findControl = findControl;
  }

  node(expression: Expression, depth: number): Node {
    if (depth > MAX_DEPTH) throw tooLarge('nested parts');
    const inner = (part: Expression) => this.node(part, depth + 1);
    switch (expression.kind) {
      case 'text':
        if (hasHalves(expression.text)) throw malformed('half a surrogate pair is no character');
        return expression;
      case 'characters':
        return { kind: 'characters', set: codePoints(expression.ranges) };
      case 'sequence':
        return { kind: 'sequence', parts: expression.parts.map(inner) };
      case 'choice':
        return { kind: 'choice', options: expression.options.map(inner) };
      case 'repeat':
        if (Math.max(expression.least, expression.most ?? 0) > MAX_REPEAT) throw tooLarge('a repetition');
        return {
          kind: 'repeat',
          part: inner(expression.part),
          least: expression.least,
          most: expression.most,
        };
      case 'mark':
        return this.#mark(expression.text);
      case 'free':
        return this.#free(expression.without);
      case 'schema':
        return this.#schema(expression);
      case 'noted':
        this.#note(expression.note);
        return inner(expression.part);
      case 'regex':
        return this.#regex(expression.pattern);
      case 'grammar':
        return ebnfNode(expression.text, this.#book, `grammar ${this.#scopes++}`);
    }
  }

  #schema(expression: SchemaExpression): Node {
    const { schema, lenient, strings } = expression;
    const spelling = this.#spelling(strings);
    const scope = `schema ${this.#scopes++}`;
    const make = (book: RuleBook) => {
      const document = new SchemaDocument(schema, lenient === undefined);
      return { node: schemaNode(document, book, scope, spelling), notes: document.notes };
    };
    // A separate book, so that a failure leaves no rules.
    const refusal = lenient === 'type' ? refusalOf(() => make(new RuleBook())) : undefined;
    if (refusal !== undefined) {
      this.#note(refusal.message);
      const known = ['object', 'array', 'string', 'number', 'integer', 'boolean', 'null'];
      const type = isObject(schema) ? known.find((name) => name === schema.type) : undefined;
      return this.#schema({
        kind: 'schema',
        schema: type === undefined ? true : { type },
        ...(strings && { strings }),
      });
    }
    const { node, notes } = make(this.#book);
    if (notes.unknown.size > 0) this.notes.add(`unknown in the schema: ${[...notes.unknown].join(', ')}`);
    for (const note of notes.notEnforced) this.#note(note);
    return node;
  }

  #note(what: string): void {
    this.isLoose = true;
    this.notes.add(`not enforced: ${what}`);
  }

  #spelling(marks: StringMarks | undefined): StringSpelling {
    if (marks === undefined) return jsonStrings;
    const { quote, without } = marks;
    // A control token never occurs in text.
    const held = this.#findControl(without) === undefined ? without : undefined;
    if (quote === undefined && held === undefined) return jsonStrings;
    return stringsWithout(JSON.stringify(marks), held, quote === undefined ? undefined : this.#mark(quote));
  }

  #mark(spelling: string): Node {
    const id = this.#findControl(spelling);
    return id === undefined ? { kind: 'text', text: spelling } : { kind: 'token', id };
  }

  #free(marks: readonly string[]): Node {
    const tokens = marks.flatMap((mark) => this.#findControl(mark) ?? []);
    const texts = marks.filter((mark) => this.#findControl(mark) === undefined);
    if (texts.includes('')) throw new GrammarError('malformed', 'an empty mark would be everywhere');
    return { kind: 'free', texts, tokens };
  }

  #regex(pattern: string): Node {
    return this.#book.named(`regex ${pattern}`, () => ({
      kind: 'language',
      dfa: regexDfa(pattern),
      encoding: 'plain',
    }));
  }
}

function refusalOf(make: () => unknown): GrammarError | undefined {
  try {
    make();
    return undefined;
  } catch (error) {
    if (error instanceof GrammarError) return error;
    throw error;
  }
}
