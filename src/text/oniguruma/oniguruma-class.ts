// Character classes of Oniguruma. Nested classes and `&&` mean the same in JavaScript's `v` syntax, which needs more
// escapes.

import { foldedVariants, readEscape } from './oniguruma-escape.ts';

type TranslatedClass =
  | { readonly kind: 'class'; readonly text: string; readonly length: number }
  | { readonly kind: 'unsupported'; readonly construct: string };

type Item =
  | { readonly kind: 'character'; readonly character: string; readonly length: number }
  | { readonly kind: 'text'; readonly text: string; readonly length: number }
  | { readonly kind: 'unsupported'; readonly construct: string };

const posixClasses: Readonly<Record<string, string>> = {
  alpha: '\\p{Alphabetic}',
  digit: '\\p{Nd}',
  alnum: '[\\p{Alphabetic}\\p{Nd}]',
  upper: '\\p{Uppercase}',
  lower: '\\p{Lowercase}',
  space: '\\p{White_Space}',
  punct: '[\\p{P}$+<=>\\^`\\|~]',
};

export function translateClass(pattern: string, start: number, ignoreCase: boolean): TranslatedClass {
  const opening = pattern.charAt(start + 1) === '^' ? '[^' : '[';
  let position = start + opening.length;
  // JavaScript requires each side of `&&` to be a class.
  const sides: string[] = [];
  let text = '';
  let first = true;
  while (position < pattern.length) {
    // A leading closing bracket stands for itself.
    if (pattern.charAt(position) === ']' && !first) {
      const content = sides.length === 0 ? text : [...sides, text].map((side) => `[${side}]`).join('&&');
      return { kind: 'class', text: `${opening}${content}]`, length: position + 1 - start };
    }
    first = false;
    if (pattern.startsWith('&&', position)) {
      sides.push(text);
      text = '';
      position += 2;
      continue;
    }
    const item = readItem(pattern, position, ignoreCase);
    if (item.kind === 'unsupported') return item;
    position += item.length;
    const range = item.kind === 'character' ? readRangeEnd(pattern, position, ignoreCase) : undefined;
    if (range !== undefined && item.kind === 'character') {
      position += 1 + range.length;
      text += rangeText(item.character, range.character, ignoreCase);
    } else {
      text += item.kind === 'character' ? characterText(item.character, ignoreCase) : item.text;
    }
  }
  return { kind: 'unsupported', construct: 'an unclosed class' };
}

function readItem(pattern: string, position: number, ignoreCase: boolean): Item {
  const posix = /^\[:(?<negated>\^?)(?<name>[a-z]+):\]/.exec(pattern.slice(position, position + 16));
  if (posix !== null) return posixItem(posix);
  const character = String.fromCodePoint(pattern.codePointAt(position) as number);
  if (character === '[') {
    const nested = translateClass(pattern, position, ignoreCase);
    return nested.kind === 'class' ? { ...nested, kind: 'text' } : nested;
  }
  if (character !== '\\') return { kind: 'character', character, length: character.length };
  const read = readEscape(pattern, position);
  if (read.kind === 'character' || read.kind === 'unsupported') return read;
  if (read.kind === 'set') return { kind: 'text', text: read.text, length: read.length };
  // Within a class `\b` is the backspace; other assertions have no meaning.
  if (pattern.charAt(position + 1) === 'b') return { kind: 'character', character: '\b', length: 2 };
  return { kind: 'unsupported', construct: `\\${pattern.charAt(position + 1)} inside a class` };
}

function posixItem(match: RegExpExecArray): Item {
  const name = match.groups?.name ?? '';
  const set = posixClasses[name];
  if (set === undefined) return { kind: 'unsupported', construct: match[0] };
  return { kind: 'text', text: match.groups?.negated === '^' ? `[^${set}]` : set, length: match[0].length };
}

function readRangeEnd(
  pattern: string,
  position: number,
  ignoreCase: boolean,
): Extract<Item, { kind: 'character' }> | undefined {
  if (pattern.charAt(position) !== '-' || pattern.charAt(position + 1) === ']') return undefined;
  const end = readItem(pattern, position + 1, ignoreCase);
  return end.kind === 'character' ? end : undefined;
}

function rangeText(from: string, to: string, ignoreCase: boolean): string {
  const plain = `${escapeInClass(from)}-${escapeInClass(to)}`;
  if (!ignoreCase) return plain;
  const last = to.codePointAt(0) as number;
  let folded = '';
  for (let code = from.codePointAt(0) as number; code <= last; code++) {
    folded += characterText(String.fromCodePoint(code), true);
  }
  return folded;
}

function characterText(character: string, ignoreCase: boolean): string {
  const variants = ignoreCase ? foldedVariants(character) : [character];
  return variants.map(escapeInClass).join('');
}

function escapeInClass(character: string): string {
  return /[\^$\\.*+?()[\]{}|/&\-!#%,:;<=>@`~]/.test(character) ? `\\${character}` : character;
}
