// Regular expressions of Python's `re`, as far as they are spelled like those of ECMA-262.

import { type CodePoints, codePoints, single, union } from './code-points.ts';
import type { Pattern } from './pattern.ts';
import { type Dialect, property, regexPattern, unsupported } from './regex.ts';

const pythonSpaces = codePoints([
  [0x09, 0x0d],
  [0x1c, 0x20],
  [0x85, 0x85],
  [0xa0, 0xa0],
  [0x1680, 0x1680],
  [0x2000, 0x200a],
  [0x2028, 0x2029],
  [0x202f, 0x202f],
  [0x205f, 0x205f],
  [0x3000, 0x3000],
]);

/** What it matches somewhere within a text; what looks around itself there is refused. Of the flags `i` and `s` count. */
export function pythonPattern(source: string, flags: string): Pattern {
  return regexPattern(asEcma(source), pythonDialect(flags));
}

/** Its classes are Unicode's. */
function pythonDialect(flags: string): Dialect {
  return {
    isWhole: false,
    lineEnds: flags.includes('s') ? [] : single(0x0a),
    digits: () => property('\\p{Nd}'),
    words: () => union(property('\\p{L}'), property('\\p{N}'), single(0x5f)),
    spaces: pythonSpaces,
    anyCase: flags.includes('i') ? anyCase : (set) => set,
  };
}

/** A larger set has ASCII's letters in both cases, and others as they are. */
const MAX_CASED = 4096;

export function anyCase(set: CodePoints): CodePoints {
  const size = set.reduce((sum, [first, last]) => sum + last - first + 1, 0);
  const found: [number, number][] = [];
  for (const [first, last] of set) {
    const end = size > MAX_CASED ? Math.min(last, 0x7f) : last;
    for (let point = first; point <= end; point++) {
      const character = String.fromCodePoint(point);
      for (const other of [character.toLowerCase(), character.toUpperCase()]) {
        const code = other.codePointAt(0) as number;
        // Some letters become several.
        if (String.fromCodePoint(code) === other) found.push([code, code]);
      }
    }
  }
  return union(set, codePoints(found));
}

/** Refuses what ECMA-262 would read as something else. */
function asEcma(source: string): string {
  const strange = /\\(?:[^dDwWsSnrtfvxuU\W_]|[1-9_])|\[\^?\]|\(\?(?![:P!=<])/u.exec(withoutPairs(source));
  if (strange !== null) throw unsupported('what is not supported here', strange[0]);
  return source
    .replace(/\\U([0-9A-Fa-f]{8})/g, (_, code: string) => `\\u{${code.replace(/^0+(?=.)/, '')}}`)
    .replace(/\(\?P</g, '(?<')
    .replace(/(?<!\\)\{,(\d+)\}/g, '{0,$1}');
}

/** Escaped backslashes and brackets escape nothing. */
function withoutPairs(source: string): string {
  return source.replace(/\\[\\[\](]/g, '..');
}
