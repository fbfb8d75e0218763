// Parses GBNF of llama.cpp: `name ::= body`, quoted texts, [classes], (groups), `|`, and `? * + {n,m}` after what
// they repeat. Comments begin with `#`. The answer is the rule `root`.

import { type GrammarError, malformed, tooLarge } from './grammar-error.ts';
import { type CodePoints, codePoints, complement, hasHalves, single, union } from './regular/code-points.ts';
import type { Node, RuleBook } from './rules.ts';

const MAX_CHARACTERS = 200_000;
const MAX_DEPTH = 200;
const MAX_REPEAT = 2000;

export function ebnfNode(source: string, book: RuleBook, scope: string): Node {
  if (source.length > MAX_CHARACTERS) throw tooLarge('the text of a grammar');
  const parser = new Parser(source);
  const bodies = parser.rules();
  if (!bodies.has('root')) throw malformed("the grammar has no rule 'root'");
  const ruleNode = (name: string): Node => {
    const body = bodies.get(name);
    if (body === undefined) throw malformed(`the grammar has no rule '${name}'`);
    return book.named(`${scope} ${name}`, () => resolved(body, ruleNode));
  };
  for (const name of bodies.keys()) ruleNode(name);
  return ruleNode('root');
}

type Body =
  | { readonly kind: 'text'; readonly text: string }
  | { readonly kind: 'characters'; readonly set: CodePoints }
  | { readonly kind: 'sequence'; readonly parts: readonly Body[] }
  | { readonly kind: 'choice'; readonly options: readonly Body[] }
  | {
      readonly kind: 'repeat';
      readonly part: Body;
      readonly least: number;
      readonly most?: number | undefined;
    }
  | { readonly kind: 'name'; readonly name: string };

function resolved(body: Body, ruleNode: (name: string) => Node): Node {
  switch (body.kind) {
    case 'name':
      return ruleNode(body.name);
    case 'sequence':
      return { kind: 'sequence', parts: body.parts.map((part) => resolved(part, ruleNode)) };
    case 'choice':
      return { kind: 'choice', options: body.options.map((option) => resolved(option, ruleNode)) };
    case 'repeat':
      return { ...body, part: resolved(body.part, ruleNode) };
    default:
      return body;
  }
}

const nameStart = /[A-Za-z_]/;
const nameRest = /[\w-]/;

class Parser {
  readonly #characters: readonly string[];
  #at = 0;

  constructor(source: string) {
    this.#characters = [...source];
  }

  rules(): Map<string, Body> {
    const rules = new Map<string, Body>();
    for (this.#space(true); this.#at < this.#characters.length; this.#space(true)) {
      const name = this.#name();
      this.#space(false);
      if (!this.#take('::=')) throw this.#wrong(`'::=' behind the name of rule '${name}'`);
      if (rules.has(name)) throw malformed(`the grammar has two rules '${name}'`);
      this.#space(true);
      rules.set(name, this.#choice(0, false));
    }
    return rules;
  }

  #choice(depth: number, inGroup: boolean): Body {
    if (depth > MAX_DEPTH) throw tooLarge('nested groups of a grammar');
    const options = [this.#sequence(depth, inGroup)];
    while (this.#take('|')) {
      this.#space(true);
      options.push(this.#sequence(depth, inGroup));
    }
    return options.length === 1 ? (options[0] as Body) : { kind: 'choice', options };
  }

  /** A line break ends a rule, except within a group or before `|`. */
  #sequence(depth: number, inGroup: boolean): Body {
    const parts: Body[] = [];
    for (;;) {
      const one = this.#one(depth);
      if (one === undefined) break;
      parts.push(this.#repeated(one));
      this.#space(inGroup);
    }
    const here = this.#at;
    this.#space(true);
    if (this.#peek() !== '|' && !inGroup) this.#at = here;
    return parts.length === 1 ? (parts[0] as Body) : { kind: 'sequence', parts };
  }

  #one(depth: number): Body | undefined {
    const next = this.#peek();
    if (next === '"') return this.#text('"');
    if (next === "'") return this.#text("'");
    if (next === '[') return this.#class();
    if (next === '.') {
      this.#at++;
      return { kind: 'characters', set: complement([]) };
    }
    if (next === '(') {
      this.#at++;
      this.#space(true);
      const inner = this.#choice(depth + 1, true);
      if (!this.#take(')')) throw this.#wrong("')'");
      return inner;
    }
    if (next === undefined || !nameStart.test(next) || this.#isRuleStart()) return undefined;
    return { kind: 'name', name: this.#name() };
  }

  /** Whether the next rule begins here, without a line of its own. */
  #isRuleStart(): boolean {
    const here = this.#at;
    this.#name();
    this.#space(false);
    const isStart = this.#characters.slice(this.#at, this.#at + 3).join('') === '::=';
    this.#at = here;
    return isStart;
  }

  #repeated(part: Body): Body {
    let body = part;
    for (;;) {
      if (this.#take('?')) body = { kind: 'repeat', part: body, least: 0, most: 1 };
      else if (this.#take('*')) body = { kind: 'repeat', part: body, least: 0 };
      else if (this.#take('+')) body = { kind: 'repeat', part: body, least: 1 };
      else if (this.#take('{')) body = this.#counted(body);
      else return body;
    }
  }

  #counted(part: Body): Body {
    const least = this.#number() ?? 0;
    const hasMost = this.#take(',');
    const most = hasMost ? this.#number() : least;
    if (!this.#take('}')) throw this.#wrong("'}'");
    if (Math.max(least, most ?? 0) > MAX_REPEAT) throw tooLarge(`a repetition of more than ${MAX_REPEAT}`);
    if (most !== undefined && most < least)
      throw malformed(`{${least},${most}} of the grammar repeats nothing`);
    return { kind: 'repeat', part, least, most };
  }

  #number(): number | undefined {
    let digits = '';
    while (/\d/.test(this.#peek() ?? '')) digits += this.#characters[this.#at++];
    return digits === '' ? undefined : Number(digits);
  }

  #text(quote: string): Body {
    this.#at++;
    let text = '';
    while (this.#peek() !== quote) text += String.fromCodePoint(this.#character());
    this.#at++;
    if (hasHalves(text)) throw malformed('half a surrogate pair in the grammar is no character');
    return { kind: 'text', text };
  }

  #class(): Body {
    this.#at++;
    const negated = this.#take('^');
    const sets: CodePoints[] = [];
    while (this.#peek() !== ']') {
      const first = this.#character();
      if (this.#peek() !== '-' || this.#characters[this.#at + 1] === ']') {
        sets.push(single(first));
        continue;
      }
      this.#at++;
      const last = this.#character();
      if (last < first) throw malformed('a range of characters of the grammar ends before it begins');
      sets.push(codePoints([[first, last]]));
    }
    this.#at++;
    const set = union(...sets);
    return { kind: 'characters', set: negated ? complement(set) : set };
  }

  #character(): number {
    const character = this.#characters[this.#at++];
    if (character === undefined || character === '\n') throw this.#wrong('the end of a text or a class');
    if (character !== '\\') return character.codePointAt(0) as number;
    const escaped = this.#characters[this.#at++];
    const lengths: Readonly<Record<string, number>> = { x: 2, u: 4, U: 8 };
    const plain: Readonly<Record<string, string>> = { n: '\n', r: '\r', t: '\t' };
    const length = lengths[escaped ?? ''];
    if (length !== undefined) return this.#hex(length);
    if (escaped === undefined || /[A-Za-z0-9]/.test(escaped.replace(/[nrt]/, ''))) {
      throw malformed(`the grammar has an unknown escape '\\${escaped ?? ''}'`);
    }
    return (plain[escaped] ?? escaped).codePointAt(0) as number;
  }

  #hex(length: number): number {
    const digits = this.#characters.slice(this.#at, this.#at + length).join('');
    this.#at += length;
    const value = /^[0-9a-f]+$/i.test(digits) && digits.length === length ? Number.parseInt(digits, 16) : -1;
    if (value < 0 || value > 0x10ffff) throw malformed(`the grammar has a wrong character code '${digits}'`);
    return value;
  }

  #name(): string {
    const start = this.#at;
    if (!nameStart.test(this.#peek() ?? '')) throw this.#wrong('the name of a rule');
    while (nameRest.test(this.#peek() ?? '')) this.#at++;
    return this.#characters.slice(start, this.#at).join('');
  }

  #space(lines: boolean): void {
    for (;;) {
      const next = this.#peek();
      if (next === '#') while (this.#at < this.#characters.length && this.#peek() !== '\n') this.#at++;
      else if (next === ' ' || next === '\t' || next === '\r' || (lines && next === '\n')) this.#at++;
      else return;
    }
  }

  #peek(): string | undefined {
    return this.#characters[this.#at];
  }

  #take(token: string): boolean {
    if (this.#characters.slice(this.#at, this.#at + token.length).join('') !== token) return false;
    this.#at += token.length;
    return true;
  }

  #wrong(expected: string): GrammarError {
    const line = this.#characters.slice(0, this.#at).filter((character) => character === '\n').length + 1;
    return malformed(`line ${line} of the grammar: ${expected} is missing`);
  }
}
