// Parses grammars of Lark: `rule: …` and `TERMINAL: …` with texts, /regular expressions/, ranges, (groups), [options], `|`, and
// `? * + ~n..m` after what they repeat; `%import common.NAME` and `%ignore`. What would change the parse tree alone is skipped.

import { GrammarError, malformed, tooLarge } from './grammar-error.ts';
import { hasHalves } from './regular/code-points.ts';

const MAX_CHARACTERS = 200_000;
const MAX_DEPTH = 100;
const MAX_REPEAT = 2000;

export type LarkBody =
  | { readonly kind: 'text'; readonly text: string; readonly anyCase: boolean }
  | { readonly kind: 'regex'; readonly source: string; readonly flags: string }
  | { readonly kind: 'range'; readonly first: number; readonly last: number }
  | { readonly kind: 'name'; readonly name: string }
  | { readonly kind: 'sequence'; readonly parts: readonly LarkBody[] }
  | { readonly kind: 'choice'; readonly options: readonly LarkBody[] }
  | {
      readonly kind: 'repeat';
      readonly part: LarkBody;
      readonly least: number;
      readonly most?: number | undefined;
    };

export interface LarkGrammar {
  /** Rules and terminals by their names. */
  readonly definitions: ReadonlyMap<string, LarkBody>;
  readonly ignored: readonly LarkBody[];
}

/** Names of terminals are upper case, also after an underscore. */
export function isTerminal(name: string): boolean {
  return /^_?[A-Z]/.test(name);
}

/** Of Lark's module `common`, as far as they are regular without a look ahead. */
const common: Readonly<Record<string, string>> = {
  DIGIT: '"0".."9"',
  HEXDIGIT: '"a".."f"|"A".."F"|"0".."9"',
  INT: '/[0-9]+/',
  SIGNED_INT: '/[+-]?[0-9]+/',
  DECIMAL: String.raw`/[0-9]+\.[0-9]*|\.[0-9]+/`,
  FLOAT: String.raw`/[0-9]+[eE][+-]?[0-9]+|([0-9]+\.[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?/`,
  SIGNED_FLOAT: String.raw`/[+-]?([0-9]+[eE][+-]?[0-9]+|([0-9]+\.[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?)/`,
  NUMBER: String.raw`/[0-9]+|[0-9]+[eE][+-]?[0-9]+|([0-9]+\.[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?/`,
  SIGNED_NUMBER: String.raw`/[+-]?([0-9]+|[0-9]+[eE][+-]?[0-9]+|([0-9]+\.[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?)/`,
  // Up to the first quote that an even number of backslashes precedes.
  ESCAPED_STRING: String.raw`/"([^"\\\n]|\\[^\n])*"/`,
  LCASE_LETTER: '"a".."z"',
  UCASE_LETTER: '"A".."Z"',
  LETTER: '/[A-Za-z]/',
  WORD: '/[A-Za-z]+/',
  CNAME: '/[_A-Za-z][_A-Za-z0-9]*/',
  WS_INLINE: String.raw`/[ \t]+/`,
  WS: String.raw`/[ \t\f\r\n]+/`,
  CR: String.raw`/\r/`,
  LF: String.raw`/\n/`,
  NEWLINE: String.raw`/(\r?\n)+/`,
  SH_COMMENT: String.raw`/#[^\n]*/`,
  CPP_COMMENT: String.raw`/\/\/[^\n]*/`,
  SQL_COMMENT: String.raw`/--[^\n]*/`,
  C_COMMENT: String.raw`/\/\*([^*]|\*+[^*\/])*\*+\//`,
};

export function readLark(source: string): LarkGrammar {
  if (source.length > MAX_CHARACTERS) throw tooLarge('the text of a grammar');
  const reader = new LarkReader(source);
  reader.statements();
  return reader;
}

class LarkReader implements LarkGrammar {
  readonly definitions = new Map<string, LarkBody>();
  readonly ignored: LarkBody[] = [];
  readonly #source: string;
  #at = 0;

  constructor(source: string) {
    this.#source = source;
  }

  statements(): void {
    for (this.#space(true); this.#at < this.#source.length; this.#space(true)) {
      if (this.#take(/%/y) === undefined) this.#definition();
      else this.#directive();
    }
  }

  #directive(): void {
    const name = this.#take(/\w+/y) ?? '';
    this.#space(false);
    if (name === 'ignore') this.ignored.push(this.#choice(0));
    else if (name === 'import') this.#import();
    else throw unsupported(`%${name}`);
  }

  #import(): void {
    if (this.#take(/common\b/y) === undefined) throw unsupported('an import from another module than common');
    if (this.#take(/\./y) !== undefined) {
      const name = this.#name();
      this.#space(false);
      this.#imported(name, this.#alias() ?? name);
      return;
    }
    this.#space(false);
    const list = this.#take(/\(([^()]*)\)/y);
    if (list === undefined) throw this.#wrong('a name of the module common');
    for (const name of list.slice(1, -1).split(',')) this.#imported(name.trim(), name.trim());
  }

  #imported(name: string, alias: string): void {
    const text = Object.hasOwn(common, name) ? common[name] : undefined;
    if (text === undefined) throw unsupported(`'${name}' of the module common`);
    this.#define(alias, new LarkReader(text).#choice(0));
  }

  #alias(): string | undefined {
    if (this.#take(/->/y) === undefined) return undefined;
    this.#space(false);
    return this.#name();
  }

  #definition(): void {
    // They shape the tree: no texts are left out, or a rule with one child is that child.
    this.#take(/[?!]+/y);
    const name = this.#name();
    if (this.#take(/\{/y) !== undefined) throw unsupported('a rule with parameters');
    // A priority decides between parses of one text.
    this.#take(/\.-?\d+/y);
    this.#space(false);
    if (this.#take(/:/y) === undefined) throw this.#wrong(`':' after the name '${name}'`);
    this.#space(true);
    this.#define(name, this.#choice(0));
  }

  #define(name: string, body: LarkBody): void {
    if (this.definitions.has(name)) throw malformed(`the grammar defines '${name}' twice`);
    this.definitions.set(name, body);
  }

  #choice(depth: number): LarkBody {
    if (depth > MAX_DEPTH) throw tooLarge('nested groups of a grammar');
    const options = [this.#sequence(depth)];
    while (this.#takeBar()) options.push(this.#sequence(depth));
    return options.length === 1 ? (options[0] as LarkBody) : { kind: 'choice', options };
  }

  /** Also at the beginning of a later line. */
  #takeBar(): boolean {
    const here = this.#at;
    this.#space(true);
    if (this.#take(/\|/y) !== undefined) {
      this.#space(true);
      return true;
    }
    this.#at = here;
    return false;
  }

  #sequence(depth: number): LarkBody {
    const parts: LarkBody[] = [];
    for (let one = this.#one(depth); one !== undefined; one = this.#one(depth)) {
      parts.push(this.#repeated(one));
      this.#space(depth > 0);
    }
    this.#space(false);
    this.#alias();
    this.#space(depth > 0);
    return parts.length === 1 ? (parts[0] as LarkBody) : { kind: 'sequence', parts };
  }

  #one(depth: number): LarkBody | undefined {
    const next = this.#source[this.#at];
    if (next === '"') return this.#text();
    if (next === '/') return this.#regex();
    if (next === '(') return this.#group(depth, /\)/y);
    if (next === '[') return { kind: 'repeat', part: this.#group(depth, /\]/y), least: 0, most: 1 };
    if (next === '<' || next === '@' || next === '%') throw unsupported(`'${next}'`);
    const name = this.#take(/[A-Za-z_][A-Za-z0-9_]*/y);
    if (name === undefined) return undefined;
    if (this.#source[this.#at] === '{') throw unsupported('a rule with parameters');
    return { kind: 'name', name };
  }

  #group(depth: number, end: RegExp): LarkBody {
    this.#at++;
    this.#space(true);
    const inner = this.#choice(depth + 1);
    this.#space(true);
    if (this.#take(end) === undefined) throw this.#wrong('the end of a group');
    return inner;
  }

  #repeated(part: LarkBody): LarkBody {
    const sign = this.#take(/[?*+]/y);
    if (sign === '?') return { kind: 'repeat', part, least: 0, most: 1 };
    if (sign !== undefined) return { kind: 'repeat', part, least: sign === '+' ? 1 : 0 };
    const counts = this.#take(/[ \t]*~[ \t]*\d+([ \t]*\.\.[ \t]*\d+)?/y);
    if (counts === undefined) return part;
    const [least = 0, most = least] = (counts.match(/\d+/g) ?? []).map(Number);
    if (Math.max(least, most) > MAX_REPEAT) throw tooLarge(`a repetition of more than ${MAX_REPEAT}`);
    if (most < least) throw malformed(`'${counts.trim()}' of the grammar repeats nothing`);
    return { kind: 'repeat', part, least, most };
  }

  #text(): LarkBody {
    const text = this.#quoted();
    const here = this.#at;
    this.#space(false);
    if (this.#take(/\.\./y) !== undefined) {
      this.#space(false);
      return rangeOf(text, this.#quoted());
    }
    this.#at = here;
    if (text === '') throw malformed('the grammar has an empty text');
    return { kind: 'text', text, anyCase: this.#take(/i/y) !== undefined };
  }

  #quoted(): string {
    const spelled = this.#take(/"(?:[^"\\\n]|\\.)*"/y);
    if (spelled === undefined) throw this.#wrong('the end of a text');
    const text = spelled
      .slice(1, -1)
      .replace(/\\(x..|u.{4}|U.{8}|.)/g, (_, escaped: string) => unescaped(escaped));
    if (hasHalves(text)) throw malformed('half a surrogate pair in the grammar is no character');
    return text;
  }

  #regex(): LarkBody {
    const spelled = this.#take(/\/(?!\/)(?:[^/\\\n]|\\.)*\/[imslux]*/y);
    if (spelled === undefined) throw this.#wrong('the end of a regular expression');
    const end = spelled.lastIndexOf('/');
    const flags = spelled.slice(end + 1);
    if (/[lx]/.test(flags)) throw unsupported(`the flags '${flags}' of a regular expression`);
    return { kind: 'regex', source: spelled.slice(1, end).replaceAll('\\/', '/'), flags };
  }

  #name(): string {
    const name = this.#take(/[A-Za-z_][A-Za-z0-9_]*/y);
    if (name === undefined) throw this.#wrong('the name of a rule or terminal');
    return name;
  }

  /** Comments begin with `//` or `#`. A line that is indented, or begins with `|`, goes on with the one before. */
  #space(lines: boolean): void {
    this.#take(lines ? /(?:\s|\/\/[^\n]*|#[^\n]*)+/y : /(?:[^\S\n]|\/\/[^\n]*|#[^\n]*)+/y);
  }

  #take(pattern: RegExp): string | undefined {
    pattern.lastIndex = this.#at;
    const found = pattern.exec(this.#source)?.[0];
    if (found !== undefined) this.#at += found.length;
    return found === '' ? undefined : found;
  }

  #wrong(expected: string): GrammarError {
    const line = this.#source.slice(0, this.#at).split('\n').length;
    return malformed(`line ${line} of the grammar: ${expected} is missing`);
  }
}

function rangeOf(first: string, last: string): LarkBody {
  const [one, other] = [[...first], [...last]];
  if (one.length !== 1 || other.length !== 1)
    throw malformed('a range of the grammar is between two characters');
  const range = { first: first.codePointAt(0) as number, last: last.codePointAt(0) as number };
  if (range.last < range.first) throw malformed('a range of the grammar ends before it begins');
  return { kind: 'range', ...range };
}

const plainEscapes: Readonly<Record<string, string>> = { n: '\n', r: '\r', t: '\t', f: '\f', v: '\v' };

function unescaped(escaped: string): string {
  const kind = escaped[0] as string;
  if (escaped.length > 1) {
    const code = /^[0-9a-f]+$/i.test(escaped.slice(1)) ? Number.parseInt(escaped.slice(1), 16) : -1;
    if (code < 0 || code > 0x10ffff) throw malformed(`the grammar has a wrong character code '${escaped}'`);
    return String.fromCodePoint(code);
  }
  if (/[A-Za-z0-9]/.test(kind) && plainEscapes[kind] === undefined)
    throw malformed(`the grammar has an unknown escape '\\${kind}'`);
  return plainEscapes[kind] ?? kind;
}

function unsupported(what: string): GrammarError {
  return new GrammarError('unsupported', `the lark grammar has ${what}, which is not supported`);
}
