// What Python's Lark accepts and refuses (`lark.vectors.json`, by its Earley parser with the lexer `dynamic_complete`), and what
// Lark itself does not take.

import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { rulesOf } from './assemble.ts';
import { checkBytes } from './check-text.ts';
import { compileRules } from './compile.ts';
import { larkKeyword } from './json/read-schema.ts';

interface Vectors {
  readonly cases: readonly {
    readonly name: string;
    readonly grammar: string;
    readonly accepted: readonly string[];
    readonly refused: readonly string[];
  }[];
}

const { cases } = JSON.parse(
  readFileSync(new URL('./lark.vectors.json', import.meta.url), 'utf8'),
) as Vectors;

function compiled(grammar: string, strings?: { quote: string; without: string }) {
  const schema = { type: 'string', [larkKeyword]: grammar };
  const expression = { kind: 'schema', schema, ...(strings && { strings }) } as const;
  return compileRules(rulesOf(expression, () => undefined).rules);
}

describe('a grammar of Lark', () => {
  it.each(cases)('allows in a JSON string what Lark parses, and nothing else: $name', (one) => {
    const tables = compiled(one.grammar);
    const isAllowed = (text: string) => checkBytes(tables, JSON.stringify(text)).accepted;
    expect(one.accepted.filter((text) => !isAllowed(text))).toEqual([]);
    expect(one.refused.filter(isAllowed)).toEqual([]);
    expect(one.accepted.length).toBeGreaterThan(1);
    expect(one.refused.length).toBeGreaterThan(5);
  });

  it.each(cases)('allows the same between marks of a model’s own: $name', (one) => {
    const tables = compiled(one.grammar, { quote: '~~', without: '~~' });
    const isAllowed = (text: string) => checkBytes(tables, `~~${text}~~`).accepted;
    expect(one.accepted.filter((text) => !isAllowed(text))).toEqual([]);
    expect(one.refused.filter(isAllowed)).toEqual([]);
  });

  it('may have terminals that can be empty, as Codex has them', () => {
    const tables = compiled('start: ("+" /(.*)/ LF)+\n%import common.LF');
    expect(checkBytes(tables, JSON.stringify('+\n+a b\n'))).toEqual({ accepted: true });
    expect(checkBytes(tables, JSON.stringify('a\n')).accepted).toBe(false);
  });

  it.each([
    ['a: "x"', "no rule 'start'"],
    ['start: a', "no rule 'a'"],
    ['start: A', "no terminal 'A'"],
    ['start: "a', 'line 1 of the grammar'],
    ['start: ("a"', 'the end of a group'],
    ['start: "a"\nstart: "b"', "defines 'start' twice"],
    ['start: A\nA: B\nB: "x" A', "'A' of the grammar has itself in it"],
    ['start: A\nA: start', "has the rule 'start' in it"],
    ['start: start "a"', 'never ends'],
    ['start: a "x"\na: start | "y"', 'calls itself before it reads anything'],
    ['start: "a" ~ 3..2', 'repeats nothing'],
    ['start: "a" ~ 3000', 'too large'],
    ['start: "b".."a"', 'ends before it begins'],
    ['start: list{"a"}\nlist{x}: x', 'parameters'],
    ['%declare A\nstart: A', '%declare'],
    ['%import .other.A\nstart: A', 'another module than common'],
    ['%import common.NOTHING\nstart: NOTHING', "'NOTHING' of the module common"],
    ['start: %json {"type": "object"}', "'%'"],
    ['start: <|special|>', "'<'"],
    ['start: /a/x', "the flags 'x'"],
    ['start: /(?<=a)b/', 'depends on its surroundings'],
    ['start: /^a$/', 'depends on its surroundings'],
    [String.raw`start: /\ba/`, 'not supported here'],
    [String.raw`start: /a\Z/`, 'not supported here'],
    ['start: /(?i)a/', 'not supported here'],
    ['start: /[]a]/', 'not supported here'],
    [String.raw`start: /(a)\1/`, 'not supported here'],
    ['start: /(/', 'cannot be read'],
    [String.raw`start: "\q"`, 'unknown escape'],
    [String.raw`start: "\ud800"`, 'half a surrogate pair'],
  ])('%j is refused, and the error says why', (grammar, problem) => {
    expect(() => compiled(grammar)).toThrow(problem);
  });
});
