// Translates a grammar of Lark to rules over characters: the texts that Lark's Earley parser accepts when every way to divide a
// text into terminals counts (`lexer='dynamic_complete'`). The answer is the rule `start`.

import { GrammarError, malformed } from './grammar-error.ts';
import { isTerminal, type LarkBody, type LarkGrammar, readLark } from './lark-reader.ts';
import type { CharacterDfa } from './regular/character-dfa.ts';
import { codePoints, single } from './regular/code-points.ts';
import { characters, choiceOf, type Pattern, repeatOf, sequenceOf, toDfa } from './regular/pattern.ts';
import { anyCase, pythonPattern } from './regular/python-regex.ts';
import type { Node, RuleBook } from './rules.ts';

/** `spelled`: how the characters of a terminal are written. */
export function larkNode(
  source: string,
  book: RuleBook,
  scope: string,
  spelled: (dfa: CharacterDfa) => Node,
): Node {
  return new LarkRules(readLark(source), book, scope, spelled).start();
}

class LarkRules {
  readonly #grammar: LarkGrammar;
  readonly #book: RuleBook;
  readonly #scope: string;
  readonly #spelled: (dfa: CharacterDfa) => Node;
  readonly #patterns = new Map<string, Pattern>();
  /** What may stand after every terminal; undefined where nothing may. */
  readonly #gap: Node | undefined;

  constructor(grammar: LarkGrammar, book: RuleBook, scope: string, spelled: (dfa: CharacterDfa) => Node) {
    this.#grammar = grammar;
    this.#book = book;
    this.#scope = scope;
    this.#spelled = spelled;
    this.#gap = this.#gapOf(grammar.ignored);
  }

  start(): Node {
    const rule = this.#named('start');
    // Rules that are never called must be right, too.
    for (const name of this.#grammar.definitions.keys())
      if (isTerminal(name)) this.#patternOf(name, []);
      else this.#named(name);
    return this.#gap === undefined ? rule : { kind: 'sequence', parts: [this.#gap, rule] };
  }

  #gapOf(ignored: readonly LarkBody[]): Node | undefined {
    if (ignored.length === 0) return undefined;
    const part = choiceOf(...ignored.map((body) => this.#pattern(body, [])));
    return this.#book.named(`${this.#scope} %ignore`, () => this.#spelled(toDfa(repeatOf(part, 0))));
  }

  #named(name: string): Node {
    const body = this.#grammar.definitions.get(name);
    if (body === undefined) throw malformed(`the grammar has no rule '${name}'`);
    return this.#book.named(`${this.#scope} ${name}`, () => this.#node(withoutLeftRecursion(name, body)));
  }

  #node(body: LarkBody): Node {
    switch (body.kind) {
      case 'sequence':
        return { kind: 'sequence', parts: body.parts.map((part) => this.#node(part)) };
      case 'choice':
        return { kind: 'choice', options: body.options.map((option) => this.#node(option)) };
      case 'repeat':
        return { ...body, part: this.#node(body.part) };
      case 'name':
        return isTerminal(body.name) ? this.#terminal(body) : this.#named(body.name);
      default:
        return this.#terminal(body);
    }
  }

  #terminal(body: LarkBody): Node {
    return this.#book.named(`${this.#scope} ${JSON.stringify(body)}`, () => {
      const dfa = toDfa(this.#pattern(body, []));
      const text = this.#spelled(dfa);
      return this.#gap === undefined ? text : { kind: 'sequence', parts: [text, this.#gap] };
    });
  }

  #pattern(body: LarkBody, within: readonly string[]): Pattern {
    const inner = (part: LarkBody) => this.#pattern(part, within);
    switch (body.kind) {
      case 'text':
        return sequenceOf(
          ...Array.from(body.text, (character) => {
            const set = single(character.codePointAt(0) as number);
            return characters(body.anyCase ? anyCase(set) : set);
          }),
        );
      case 'regex':
        return pythonPattern(body.source, body.flags);
      case 'range':
        return characters(codePoints([[body.first, body.last]]));
      case 'sequence':
        return sequenceOf(...body.parts.map(inner));
      case 'choice':
        return choiceOf(...body.options.map(inner));
      case 'repeat':
        return repeatOf(inner(body.part), body.least, body.most);
      case 'name':
        if (!isTerminal(body.name))
          throw malformed(`a terminal of the grammar has the rule '${body.name}' in it`);
        return this.#patternOf(body.name, within);
    }
  }

  #patternOf(name: string, within: readonly string[]): Pattern {
    const known = this.#patterns.get(name);
    if (known !== undefined) return known;
    const body = this.#grammar.definitions.get(name);
    if (body === undefined) throw malformed(`the grammar has no terminal '${name}'`);
    if (within.includes(name)) throw malformed(`the terminal '${name}' of the grammar has itself in it`);
    const pattern = this.#pattern(body, [...within, name]);
    this.#patterns.set(name, pattern);
    return pattern;
  }
}

/** `a: a x | y` is `a: y x*`. A rule that begins with itself by way of another is refused by the compiler. */
function withoutLeftRecursion(name: string, body: LarkBody): LarkBody {
  const options = optionsOf(body).map((option) => (option.kind === 'sequence' ? option.parts : [option]));
  const isOwn = ([first]: readonly LarkBody[]) => first?.kind === 'name' && first.name === name;
  const rest = options.filter(isOwn).map((parts): LarkBody => ({ kind: 'sequence', parts: parts.slice(1) }));
  if (rest.length === 0) return body;
  const firsts = options.filter((parts) => !isOwn(parts));
  if (firsts.length === 0) throw new GrammarError('empty', `the rule '${name}' of the grammar never ends`);
  const begin = firsts.map((parts): LarkBody => ({ kind: 'sequence', parts }));
  const more = rest.filter((one) => one.kind === 'sequence' && one.parts.length > 0);
  return {
    kind: 'sequence',
    parts: [
      { kind: 'choice', options: begin },
      { kind: 'repeat', part: { kind: 'choice', options: more }, least: 0 },
    ],
  };
}

/** Of a choice within a choice, all. */
function optionsOf(body: LarkBody): readonly LarkBody[] {
  return body.kind === 'choice' ? body.options.flatMap(optionsOf) : [body];
}
