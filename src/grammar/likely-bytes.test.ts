import { describe, expect, it } from 'vitest';
import { rulesOf } from './assemble.ts';
import { compileRules } from './compile.ts';
import { SharedMasks } from './masks.ts';
import { Grammar, Matcher } from './matcher.ts';
import { vocabularyTables } from './vocabulary.ts';

const pieces = ['a', 'b', 'c', '"', ':', ' ', '{', '}', 'ab', 'abc', '": ', 'aa', '1', ','];
const tokens = {
  vocabSize: pieces.length + 1,
  eosIds: new Set([pieces.length]),
  stripsLeadingSpace: false,
  tokenBytes: (id: number) => new TextEncoder().encode(pieces[id] ?? ''),
  isSpecial: (id: number) => id === pieces.length,
};

function matcherOf(pattern: string): Matcher {
  const tables = compileRules(rulesOf({ kind: 'regex', pattern }, () => undefined).rules);
  return new Matcher(new Grammar(tables, vocabularyTables(tokens), new SharedMasks(10)), true);
}

const spelled = (ids: readonly number[]) => ids.map((id) => pieces[id]);

describe('text that a grammar leaves no choice about, or little', () => {
  it('is told in the longest tokens', () => {
    expect(spelled(matcherOf('\\{"abca": (1|a)').likely(9).tokens)).toEqual(['{', '"', 'abc', 'a', '": ']);
  });

  it('ends where there is a choice, or where the answer may end', () => {
    expect(matcherOf('(a|b)c').likely(9).tokens).toEqual([]);
    expect(spelled(matcherOf('abc?').likely(9).tokens)).toEqual(['ab']);
    expect(spelled(matcherOf('c{2}').likely(9).tokens)).toEqual(['c', 'c']);
  });

  it('is no longer than was asked for', () => {
    expect(spelled(matcherOf('c{50}').likely(4).tokens)).toEqual(['c', 'c', 'c', 'c']);
  });

  it('is looked for without moving the answer', () => {
    const matcher = matcherOf('abcabc1');
    const fork = matcher.fork();
    for (const id of fork.likely(2).tokens) expect(fork.accept(id)).toBe(true);
    expect(spelled(fork.likely(2).tokens)).toEqual(['1']);
    expect(spelled(matcher.likely(2).tokens)).toEqual(['abc', 'abc']);
  });

  it('goes on past white space, as most write it', () => {
    const { tokens: ids, forced } = matcherOf('abc"[ \\n]?:[ \\n]?"a"[ \\n]?,[ \\n]?1').likely(20);
    expect(spelled(ids).join('')).toBe('abc": "a", 1');
    expect(spelled(ids.slice(0, forced)).join('')).toBe('abc');
  });

  it('tells how the value at hand would end, where text would have to follow', () => {
    expect(spelled(matcherOf('a*": (a|b)').ending(9))).toEqual(['": ']);
    expect(spelled(matcherOf('\\d+,[ \\n]?"a').ending(9)).join('')).toBe('');
    const number = matcherOf('1+,[ \\n]?"a');
    number.accept(pieces.indexOf('1'));
    expect(spelled(number.ending(9)).join('')).toBe(', "a');
    expect(matcherOf('a*"(a|b)').ending(9)).toEqual([]);
  });
});
