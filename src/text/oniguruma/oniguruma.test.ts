import { describe, expect, it } from 'vitest';
import { fromOniguruma, UnsupportedPattern } from './oniguruma.ts';

// What the expressions match in Oniguruma's Ruby syntax.
const matches: readonly (readonly [string, string, readonly string[]])[] = [
  ['\\s+', 'a\u0085\u3000b\ufeffc d', ['\u0085\u3000', ' ']],
  ['\\d', '1٣½', ['1', '٣']],
  ['\\w+', 'é_1٣‿ +', ['é_1٣‿']],
  ["(?i:'s|'k)", "'s 'S 'ſ 'k 'K '\u212a 'x", ["'s", "'S", "'ſ", "'k", "'K", "'\u212a"]],
  ['a(?i:b)c|a(?i)bc', 'aBc aBC abc', ['aBc', 'aBC', 'abc']],
  ['(?i:[a-c]x)', 'Ax bX CX dx', ['Ax', 'bX', 'CX']],
  ['a.', 'a\r a\n', ['a\r']],
  ['\\s+$', 'a  \n b \n', ['  ', ' \n']],
  ['^b', 'b\nb\rb', ['b', 'b']],
  ['\\Ab|b\\z', 'b\nb\nb', ['b', 'b']],
  ['[^(\\s|[.,])]+', 'a b|c (d).e', ['a', 'b', 'c', 'd', 'e']],
  ['[a-z&&[^aeiou]]+', 'hello', ['h', 'll']],
  ['[]a]+', 'a]b', ['a]']],
  ['[a\\-z]+', 'a-bz', ['a-', 'z']],
  ['a++b|a', 'aaab aa', ['aaab', 'a', 'a']],
  ['a++a|b', 'aaab', ['b']],
  ['a?+a|c', 'aac', ['aa', 'c']],
  ['(?>ab|a)b|b', 'ab', ['b']],
  ['x{,2}y', 'xxxy', ['xxy']],
  ['(?:a{2})+', 'aaaaa', ['aaaa']],
  ['a{2}+', 'aaaaa', ['aaaa']],
  ['a+?', 'aa', ['a', 'a']],
  ['\\p{Han}+|\\p{^L}', '漢字a1', ['漢字', '1']],
  ['[[:alpha:]]+', 'aé1', ['aé']],
  ['\\x{1F6A1}|\\u00e9|\\x41', '🚡éA', ['🚡', 'é', 'A']],
  ['\\bfoo\\b', 'foo foobar éfoo (foo)', ['foo', 'foo']],
  ['{|}|\\-', 'a{-}', ['{', '-', '}']],
  ['[^\\r\\n\\p{L}\\p{N}]?+\\p{L}+', ' ab,cd\ne', [' ab', ',cd', 'e']],
];

describe('Oniguruma expressions in JavaScript', () => {
  it.each(matches)('%s', (pattern, text, expected) => {
    expect(text.match(fromOniguruma(pattern)) ?? []).toEqual(expected);
  });

  it.each(['(?<a', 'a)', '\\Ka', '\\1', '(?x:a b)', '\\p{Klingon}', '[a', '[[:odd:]]'])(
    'refuses %s by name',
    (pattern) => {
      expect(() => fromOniguruma(pattern)).toThrow(UnsupportedPattern);
    },
  );
});
