// Parses regular expressions to patterns, as ECMA-262 reads them or by another dialect of the same spelling. What is no regular
// language is refused.

import { type AST, RegExpParser } from '@eslint-community/regexpp';
import { messageOf } from '../../runtime/error-message.ts';
import { GrammarError, malformed } from '../grammar-error.ts';
import { type CharacterDfa, difference, intersection } from './character-dfa.ts';
import { type CodePoints, codePoints, complement, single, union, wordCharacters } from './code-points.ts';
import { characters, choiceOf, type Pattern, repeatOf, sequenceOf, toDfa } from './pattern.ts';

const MAX_CHARACTERS = 10_000;

/** The texts that a regular expression matches from beginning to end. */
export function regexDfa(source: string): CharacterDfa {
  return languageOf(source, (pattern) => pattern);
}

/** As a part of something larger, whose sets and surroundings the dialect describes. */
export function regexPattern(source: string, dialect: Dialect): Pattern {
  return alternativesOf(readRegex(source), dialect);
}

/** Those that it matches anywhere in, as `pattern` of JSON Schema means. */
export function searchDfa(source: string): CharacterDfa {
  return languageOf(source, searching);
}

/** Lookaheads right after the beginning are languages that hold for the whole text besides. */
function languageOf(source: string, within: (pattern: Pattern) => Pattern): CharacterDfa {
  const alternatives = readRegex(source);
  const [only, ...others] = alternatives;
  const ahead = others.length === 0 && only !== undefined ? leadingLookaheads(only) : [];
  if (only === undefined || ahead.length === 0) return toDfa(within(alternativesOf(alternatives, ecma)));
  const elements = only.elements.filter((element) => !ahead.includes(element as AST.LookaroundAssertion));
  const rest = toDfa(within(sequenceOf(...elements.map((element) => patternOf(element, ecma)))));
  return ahead.reduce((dfa, { alternatives: inner, negate }) => {
    const seen = toDfa(sequenceOf({ kind: 'begin' }, alternativesOf(inner, ecma), repeatOf(anyCharacter, 0)));
    return negate ? difference(dfa, seen) : intersection(dfa, seen);
  }, rest);
}

function leadingLookaheads({ elements }: AST.Alternative): AST.LookaroundAssertion[] {
  const [first, ...rest] = elements;
  if (first?.type !== 'Assertion' || first.kind !== 'start') return [];
  const found: AST.LookaroundAssertion[] = [];
  for (const element of rest) {
    if (element.type !== 'Assertion' || element.kind !== 'lookahead') break;
    found.push(element);
  }
  return found;
}

function readRegex(source: string): readonly AST.Alternative[] {
  if (source.length > MAX_CHARACTERS) {
    throw new GrammarError('too-large', `a regular expression has more than ${MAX_CHARACTERS} characters`);
  }
  return parse(source).alternatives;
}

/** With the flag `u`, as JSON Schema requires; else as browsers read it, where `\-` is a hyphen. */
function parse(source: string): AST.Pattern {
  const parser = new RegExpParser();
  try {
    return parser.parsePattern(source, undefined, undefined, { unicode: true });
  } catch {
    try {
      return parser.parsePattern(source, undefined, undefined, { unicode: false });
    } catch (error) {
      throw malformed(`the regular expression cannot be read: ${messageOf(error)}`);
    }
  }
}

function alternativesOf(alternatives: readonly AST.Alternative[], dialect: Dialect): Pattern {
  return choiceOf(
    ...alternatives.map(({ elements }) =>
      sequenceOf(...elements.map((element) => patternOf(element, dialect))),
    ),
  );
}

function patternOf(element: AST.Element, dialect: Dialect): Pattern {
  switch (element.type) {
    case 'Character':
    case 'CharacterSet':
    case 'CharacterClass':
      return characters(setOf(element, dialect));
    case 'Group':
      if (element.modifiers !== null) throw unsupported('modifiers of a group', element.raw);
      return alternativesOf(element.alternatives, dialect);
    case 'CapturingGroup':
      return alternativesOf(element.alternatives, dialect);
    case 'Quantifier': {
      const { element: part, min, max } = element;
      return repeatOf(patternOf(part, dialect), min, max === Number.POSITIVE_INFINITY ? undefined : max);
    }
    case 'Assertion':
      if (!dialect.isWhole) throw unsupported('what depends on its surroundings', element.raw);
      if (element.kind === 'start') return { kind: 'begin' };
      if (element.kind === 'end') return { kind: 'end' };
      if (element.kind === 'word') return { kind: element.negate ? 'no-border' : 'border' };
      throw unsupported(`a ${element.kind}`, element.raw);
    default:
      throw unsupported('this element', element.raw);
  }
}

type SetElement = AST.Character | AST.CharacterSet | AST.CharacterClass | AST.CharacterClassRange;

function setOf(element: SetElement, dialect: Dialect): CodePoints {
  switch (element.type) {
    case 'Character':
      return dialect.anyCase(single(element.value));
    case 'CharacterClassRange':
      return dialect.anyCase(codePoints([[element.min.value, element.max.value]]));
    case 'CharacterClass': {
      const set = union(...element.elements.map((one) => setOf(one as SetElement, dialect)));
      return element.negate ? complement(set) : set;
    }
    case 'CharacterSet':
      return characterSet(element, dialect);
  }
}

const lineEnds = codePoints([
  [0x0a, 0x0a],
  [0x0d, 0x0d],
  [0x2028, 0x2029],
]);
const digits = codePoints([[0x30, 0x39]]);
const spaces = codePoints([
  [0x09, 0x0d],
  [0x20, 0x20],
  [0xa0, 0xa0],
  [0x1680, 0x1680],
  [0x2000, 0x200a],
  [0x2028, 0x2029],
  [0x202f, 0x202f],
  [0x205f, 0x205f],
  [0x3000, 0x3000],
  [0xfeff, 0xfeff],
]);
export interface Dialect {
  /** Whether the pattern is a whole text, whose ends it knows. */
  readonly isWhole: boolean;
  readonly lineEnds: CodePoints;
  readonly digits: () => CodePoints;
  readonly words: () => CodePoints;
  readonly spaces: CodePoints;
  /** The set with the other cases of its characters. */
  anyCase(set: CodePoints): CodePoints;
}

const ecma: Dialect = {
  isWhole: true,
  lineEnds,
  digits: () => digits,
  words: () => wordCharacters,
  spaces,
  anyCase: (set) => set,
};

function characterSet(element: AST.CharacterSet, dialect: Dialect): CodePoints {
  switch (element.kind) {
    case 'any':
      return complement(dialect.lineEnds);
    case 'digit':
      return element.negate ? complement(dialect.digits()) : dialect.digits();
    case 'word':
      return element.negate ? complement(dialect.words()) : dialect.words();
    case 'space':
      return element.negate ? complement(dialect.spaces) : dialect.spaces;
    case 'property':
      if (element.strings) throw unsupported('a property of strings', element.raw);
      return property(element.raw);
  }
}

const properties = new Map<string, CodePoints>();

export function property(raw: string): CodePoints {
  const known = properties.get(raw);
  if (known !== undefined) return known;
  const pattern = new RegExp(raw, 'u');
  const ranges: [number, number][] = [];
  for (let codePoint = 0; codePoint <= 0x10ffff; codePoint++) {
    if (!pattern.test(String.fromCodePoint(codePoint))) continue;
    const last = ranges.at(-1);
    if (last !== undefined && last[1] === codePoint - 1) last[1] = codePoint;
    else ranges.push([codePoint, codePoint]);
  }
  const set = codePoints(ranges);
  properties.set(raw, set);
  return set;
}

export function unsupported(what: string, raw: string): GrammarError {
  const message = `the regular expression uses ${what}, '${raw.slice(0, 40)}', which cannot be enforced`;
  return new GrammarError('unsupported', message);
}

const anyCharacter: Pattern = characters(complement([]));

/** A match anywhere in a text, as `pattern` of JSON Schema means. */
export function searching(pattern: Pattern): Pattern {
  const rest = repeatOf(anyCharacter, 0);
  return sequenceOf(rest, pattern, rest);
}
