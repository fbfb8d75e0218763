import { describe, expect, it } from 'vitest';
import { rulesOf } from './assemble.ts';
import { compileRules } from './compile.ts';
import { Grammar, Matcher } from './matcher.ts';
import { SharedMasks } from './shared-masks.ts';
import { vocabularyTables } from './vocabulary.ts';

const pieces = ['a', 'b', 'c', '"', ':', ' ', '{', '}', 'ab', 'abc', '": ', 'aa', '1'];
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

describe('text that a grammar leaves no choice about', () => {
  it('is told in the longest tokens', () => {
    expect(spelled(matcherOf('\\{"abca": (1|a)').forced(9))).toEqual(['{', '"', 'abc', 'a', '": ']);
  });

  it('ends where there is a choice, or where the answer may end', () => {
    expect(matcherOf('(a|b)c').forced(9)).toEqual([]);
    expect(spelled(matcherOf('abc?').forced(9))).toEqual(['ab']);
    expect(spelled(matcherOf('c{2}').forced(9))).toEqual(['c', 'c']);
  });

  it('is no longer than was asked for', () => {
    expect(spelled(matcherOf('c{50}').forced(4))).toEqual(['c', 'c', 'c', 'c']);
  });

  it('is looked for without moving the answer', () => {
    const matcher = matcherOf('abcabc1');
    const fork = matcher.fork();
    for (const id of fork.forced(2)) expect(fork.accept(id)).toBe(true);
    expect(spelled(fork.forced(2))).toEqual(['1']);
    expect(spelled(matcher.forced(2))).toEqual(['abc', 'abc']);
  });
});
