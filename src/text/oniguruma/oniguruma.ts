// Translates the regular expressions of tokenizer files, written for Oniguruma in its Ruby syntax, to
// JavaScript. Differences that matter: `\s`, `\d`, `\w` know all of Unicode, `^` and `$` match at every line,
// `(?i:…)` folds case within a group, `?+`, `*+`, `++` and `(?>…)` never give back what they took.

import { translateClass } from './oniguruma-class.ts';
import { foldedVariants, readEscape } from './oniguruma-escape.ts';

export class UnsupportedPattern extends Error {
  constructor(pattern: string, construct: string) {
    super(`the regular expression ${JSON.stringify(pattern)} uses ${construct}, which is not supported`);
    this.name = 'UnsupportedPattern';
  }
}

// Its matches begin only at the start of a run of whitespace; the lookbehind avoids a quadratic search.
const rewrites: Readonly<Record<string, string>> = { '\\s+$': '(?<!\\s)\\s+$' };

/** A global JavaScript expression that matches what `pattern` matches in Oniguruma. */
export function fromOniguruma(pattern: string): RegExp {
  const source = new Translation(rewrites[pattern] ?? pattern).run();
  try {
    return new RegExp(source, 'gv');
  } catch (error) {
    throw new UnsupportedPattern(pattern, `something JavaScript refuses (${(error as Error).message})`);
  }
}

interface OpenGroup {
  readonly start: number;
  readonly closing: string;
  readonly ignoreCaseAfter: boolean;
}

class Translation {
  readonly #pattern: string;
  #position = 0;
  #output = '';
  /** Start of the last atom in the output, for a quantifier that must wrap it. */
  #atomStart = 0;
  #ignoreCase = false;
  #atomicGroups = 0;
  readonly #open: OpenGroup[] = [];

  constructor(pattern: string) {
    this.#pattern = pattern;
  }

  run(): string {
    while (this.#position < this.#pattern.length) this.#step();
    if (this.#open.length > 0) throw this.#unsupported('an unclosed group');
    return this.#output;
  }

  #step(): void {
    const rest = this.#pattern.slice(this.#position);
    const character = String.fromCodePoint(rest.codePointAt(0) as number);
    const quantifier = /^(?:[?*+]|\{(?:\d+,?\d*|,\d+)\})/.exec(rest)?.[0];
    if (quantifier !== undefined) this.#quantify(quantifier, rest.slice(quantifier.length));
    else if (character === '(') this.#openGroup(rest);
    else if (character === ')') this.#closeGroup();
    else if (character === '|') this.#append('|', 1);
    else if (character === '[') this.#class();
    else if (character === '\\') this.#escape();
    else if (character === '.') this.#atom('[^\\n]', 1);
    else if (character === '^') this.#atom('(?<![^\\n])', 1);
    else if (character === '$') this.#atom('(?![^\\n])', 1);
    else this.#atom(this.#literal(character), character.length);
  }

  #append(text: string, consumed: number): void {
    this.#output += text;
    this.#position += consumed;
  }

  #atom(text: string, consumed: number): void {
    this.#atomStart = this.#output.length;
    this.#append(text, consumed);
  }

  #literal(character: string): string {
    const variants = this.#ignoreCase ? foldedVariants(character) : [character];
    const escaped = variants.map((variant) => variant.replace(/[\\^$.*+?()[\]{}|/]/, '\\$&'));
    return escaped.length === 1 ? (escaped[0] as string) : `[${escaped.join('')}]`;
  }

  #quantify(quantifier: string, rest: string): void {
    const interval = quantifier.startsWith('{');
    const possessive = !interval && rest.startsWith('+');
    const lazy = rest.startsWith('?');
    const spelled = quantifier.startsWith('{,') ? `{0${quantifier.slice(1)}` : quantifier;
    this.#append(spelled, quantifier.length);
    if (possessive) this.#position++;
    if (possessive) this.#makeAtomic();
    else if (lazy) this.#append('?', 1);
    else if (interval && rest.startsWith('+')) this.#wrapAtom('(?:', ')');
  }

  /** A lookahead never backtracks: match there, then take the same text. */
  #makeAtomic(): void {
    const name = `atomic${this.#atomicGroups++}`;
    this.#wrapAtom(`(?:(?=(?<${name}>`, `))\\k<${name}>)`);
  }

  #wrapAtom(before: string, after: string): void {
    const atom = this.#output.slice(this.#atomStart);
    this.#output = `${this.#output.slice(0, this.#atomStart)}${before}${atom}${after}`;
  }

  #openGroup(rest: string): void {
    const flags = /^\(\?(?<on>[imx]*)(?:-(?<off>[imx]*))?(?<end>[:)])/.exec(rest);
    const opening = /^\((?:\?(?:[=!]|<[=!]|>|<[A-Za-z_]\w*>))?/.exec(rest)?.[0] as string;
    if (flags?.groups !== undefined) {
      this.#flagGroup(flags[0], flags.groups);
      return;
    }
    if (opening === '(' && rest.startsWith('(?')) throw this.#unsupported(`the group ${rest.slice(0, 4)}`);
    const look = /^\(\?(?:[=!]|<[=!])$/.test(opening);
    this.#pushGroup(look ? opening : '(?:', opening === '(?>' ? 'atomic' : ')', opening.length);
  }

  #flagGroup(opening: string, flags: Record<string, string>): void {
    if (/[mx]/.test(flags.on ?? '')) throw this.#unsupported(`the group ${opening}`);
    const ignoreCase =
      (flags.on ?? '').includes('i') || (this.#ignoreCase && !(flags.off ?? '').includes('i'));
    if (flags.end === ':') this.#pushGroup('(?:', ')', opening.length);
    else this.#position += opening.length;
    this.#ignoreCase = ignoreCase;
  }

  #pushGroup(text: string, closing: string, consumed: number): void {
    this.#open.push({ start: this.#output.length, closing, ignoreCaseAfter: this.#ignoreCase });
    this.#append(text, consumed);
  }

  #closeGroup(): void {
    const group = this.#open.pop();
    if (group === undefined) throw this.#unsupported('an unopened group');
    this.#append(')', 1);
    this.#atomStart = group.start;
    this.#ignoreCase = group.ignoreCaseAfter;
    if (group.closing === 'atomic') this.#makeAtomic();
  }

  #class(): void {
    const result = translateClass(this.#pattern, this.#position, this.#ignoreCase);
    if (result.kind === 'unsupported') throw this.#unsupported(result.construct);
    this.#atom(result.text, result.length);
  }

  #escape(): void {
    const read = readEscape(this.#pattern, this.#position);
    if (read.kind === 'unsupported') throw this.#unsupported(read.construct);
    const text = read.kind === 'character' ? this.#literal(read.character) : read.text;
    this.#atom(text, read.length);
  }

  #unsupported(construct: string): UnsupportedPattern {
    return new UnsupportedPattern(this.#pattern, construct);
  }
}
