// Grammars that are meant to hold others up.

import { describe, expect, it } from 'vitest';
import { rulesOf } from './assemble.ts';
import { compileRules } from './compile.ts';
import { SharedMasks } from './masks.ts';
import { Grammar, Matcher } from './matcher.ts';
import { BudgetExceeded } from './step-budget.ts';
import { vocabularyTables } from './vocabulary.ts';

/** All texts of one or two printable characters, and many of three. */
const spelled = Array.from({ length: 95 }, (_, at) => String.fromCharCode(0x20 + at)).flatMap((a, _, all) => [
  a,
  ...all.map((b) => a + b),
  ...all.map((b) => a + b + a),
]);
const vocabulary = vocabularyTables({
  vocabSize: spelled.length + 1,
  eosIds: new Set([spelled.length]),
  stripsLeadingSpace: false,
  tokenBytes: (id) => Buffer.from(spelled[id] ?? ''),
  isSpecial: (id) => id === spelled.length,
});

/** Seconds at least, if nothing stopped it. */
const endless = 100;

function writes(text: string): number {
  const { rules } = rulesOf({ kind: 'grammar', text }, () => undefined);
  const matcher = new Matcher(new Grammar(compileRules(rules), vocabulary, new SharedMasks(100)), false);
  for (let step = 0; step < endless; step++) {
    matcher.mask();
    matcher.accept(spelled.indexOf('aba'));
  }
  return endless;
}

const several = (count: number, body: (rule: number) => string) =>
  [`root ::= ${Array.from({ length: count }, (_, rule) => `r${rule}`).join(' | ')}`]
    .concat(Array.from({ length: count }, (_, rule) => `r${rule} ::= ${body(rule)}`))
    .join('\n');

describe('a grammar', () => {
  it.each([
    ['of very many rules that read anything', several(1200, (rule) => `[^x]* "${rule}"`)],
    [
      'of very many rules that call others',
      `${several(600, (rule) => `([a-z0-9] | q)* "${rule}"`)}\nq ::= "(" root ")"`,
    ],
    [
      'that reads a text in exponentially many ways',
      'root ::= a | b | [a-z]\na ::= [a-z] root "x"\nb ::= [a-z] root "y"',
    ],
  ])('%s is given up before it holds others up', (_, text) => {
    expect(() => writes(text)).toThrow(BudgetExceeded);
  });

  it('of an ordinary kind never is', () => {
    expect(writes('root ::= (word " "?)*\nword ::= [a-z]+ | "(" root ")"')).toBe(endless);
  });
});
