// What a regular expression matches, compared with the interpreter's own.

import { describe, expect, it } from 'vitest';
import { GrammarError } from '../grammar-error.ts';
import { accepts } from './character-dfa.ts';
import { regexDfa, searchDfa } from './regex.ts';

const alphabet = ['a', 'b', '_', '1', ' ', '-', 'é', '\n'];

function* textsOf(length: number): Generator<string> {
  if (length === 0) {
    yield '';
    return;
  }
  for (const rest of textsOf(length - 1)) for (const character of alphabet) yield character + rest;
}
const texts = [0, 1, 2, 3, 4].flatMap((length) => [...textsOf(length)]);

describe('a regular expression', () => {
  it.each([
    '\\ba\\b',
    '\\b',
    '\\B',
    '^\\b',
    '\\b$',
    'a\\b|\\Bb',
    '^\\w+\\b.\\b\\w+$',
    '\\bab?\\b-',
    '^(?:a\\b ?)*$',
    '\\Ba\\B',
    '(^|\\b)b',
    '^(?=.*a)(?=.*1).*$',
    '^(?!.*aa)[ab]+$',
    '^(?!a)',
    '^(?=a|b)(?!.b)',
    '^(?=a$)',
    '^(?=.{2,3}$)[a-z]+',
    '^(?!\\b)',
  ])('matches anywhere what the interpreter finds: %s', (source) => {
    const dfa = searchDfa(source);
    const own = new RegExp(source, 'u');
    for (const text of texts) expect(accepts(dfa, text), JSON.stringify(text)).toBe(own.test(text));
  });

  it.each(['\\ba\\b', '[ab]+\\b.*', '^(?=.*1)[a1]+$', '\\B|a'])('matches whole texts: %s', (source) => {
    const dfa = regexDfa(source);
    const own = new RegExp(`^(?:${source})$`, 'u');
    for (const text of texts) expect(accepts(dfa, text), JSON.stringify(text)).toBe(own.test(text));
  });

  it.each(['(a)\\1', 'a(?=b)', '(?<=a)b', '(?:^(?=a)|b)', '(?=a)b', '^a(?=b)'])(
    'is refused where it is no regular language, or looks ahead elsewhere: %s',
    (source) => {
      expect(() => searchDfa(source)).toThrow(GrammarError);
    },
  );
});
