// Compiles rules to tables: each rule becomes deterministic by itself; calls stay calls. Dead states are removed, and
// left recursion is refused.

import { createHash } from 'node:crypto';
import { ByteNfa } from './byte-nfa.ts';
import { determinize, type RuleDfa } from './determinize.ts';
import { GrammarError, tooLarge } from './grammar-error.ts';
import type { Node, Rules } from './rules.ts';
import type { ControlTable, CountedRule, GrammarTables, RuleTraits } from './tables.ts';
import { leftRecursion, livingStates } from './trim.ts';

const MAX_STATES = 400_000;

export function compileRules(rules: Rules): GrammarTables {
  let total = 0;
  const dfas = rules.map((node) => {
    const dfa = dfaOf(node);
    total += dfa.states.length;
    if (total > MAX_STATES) throw tooLarge('all rules together');
    return dfa;
  });
  const alive = livingStates(dfas);
  if (alive[0]?.[0] !== true) throw new GrammarError('empty', 'no text at all fits the grammar');
  const looping = leftRecursion(dfas);
  if (looping !== undefined) {
    throw new GrammarError('unsupported', `rule ${looping} calls itself before it reads anything`);
  }
  return assemble(rules, dfas, alive);
}

function dfaOf(node: Node): RuleDfa {
  const nfa = new ByteNfa();
  const start = nfa.add();
  const end = nfa.add();
  nfa.build(node, start, end);
  return determinize(nfa, start, end);
}

function assemble(
  rules: Rules,
  dfas: readonly RuleDfa[],
  alive: readonly (readonly boolean[])[],
): GrammarTables {
  // A rule without living states can never end and is never called.
  const numbers: Int32Array[] = [];
  let count = 0;
  for (const living of alive) numbers.push(Int32Array.from(living, (lives) => (lives ? count++ : -1)));
  const numberOf = (rule: number, state: number) => (numbers[rule] as Int32Array)[state] as number;

  const ruleOf: number[] = [];
  const accepts: number[] = [];
  const bytes = new EdgeLists(3);
  const calls = new EdgeLists(2);
  const tokens = new EdgeLists(2);
  const controls: ControlTable[] = [];
  const traits: RuleTraits[] = [];
  for (const [rule, { states }] of dfas.entries()) {
    const content = createHash('sha256');
    for (const [index, state] of states.entries()) {
      const number = numberOf(rule, index);
      if (number < 0) continue;
      const base = numberOf(rule, 0);
      ruleOf.push(rule);
      accepts.push(state.accepts ? 1 : 0);
      content.update(`${state.accepts}:`);
      for (const { first, last, to } of state.bytes) {
        const target = numberOf(rule, to);
        if (target < 0) continue;
        bytes.push(first, last, target);
        content.update(`${first},${last},${target - base};`);
      }
      for (const { rule: called, to } of state.calls) {
        if (numberOf(rule, to) >= 0 && numberOf(called, 0) >= 0) calls.push(called, numberOf(rule, to));
      }
      for (const { token, to } of state.tokens)
        if (numberOf(rule, to) >= 0) tokens.push(token, numberOf(rule, to));
      for (const { without, to } of state.controls) {
        if (numberOf(rule, to) >= 0) controls.push({ state: number, without, to: numberOf(rule, to) });
      }
      for (const list of [bytes, calls, tokens]) list.close();
    }
    const counted = countedOf(rules[rule] as Node, states, alive[rule] as boolean[]);
    if (counted !== undefined) content.update(`counted ${counted.least} ${counted.most}`);
    const isLeaf = states.every((state) => state.calls.length === 0);
    traits.push({ leaf: isLeaf ? content.digest('base64') : undefined, counted });
  }
  const tables: Omit<GrammarTables, 'key'> = {
    starts: Int32Array.from(dfas, (_, rule) => numberOf(rule, 0)),
    rules: traits,
    ruleOf: Int32Array.from(ruleOf),
    accepts: Uint8Array.from(accepts),
    byteEdges: bytes.starts,
    byteFirst: Uint8Array.from(bytes.column(0)),
    byteLast: Uint8Array.from(bytes.column(1)),
    byteTo: Int32Array.from(bytes.column(2)),
    callEdges: calls.starts,
    callRule: Int32Array.from(calls.column(0)),
    callTo: Int32Array.from(calls.column(1)),
    tokenEdges: tokens.starts,
    tokenId: Int32Array.from(tokens.column(0)),
    tokenTo: Int32Array.from(tokens.column(1)),
    controls,
  };
  return { key: keyOf(tables), ...tables };
}

function countedOf(
  node: Node,
  states: RuleDfa['states'],
  alive: readonly boolean[],
): CountedRule | undefined {
  if (node.kind !== 'counted-string') return undefined;
  const all = neededCharacters(states);
  const living = states.flatMap(({ between }, state) =>
    alive[state] === true ? [{ between: between ? 1 : 0, need: all[state] as number }] : [],
  );
  const needs = living.map(({ need }) => need);
  return {
    between: living.map(({ between }) => between),
    needs,
    longestNeed: living.reduce((most, { between, need }) => Math.max(most, between * need), 0),
    least: node.least,
    most: node.most,
  };
}

/** By state, how many characters must be completed before the rule ends; infinite where it cannot. */
function neededCharacters(states: RuleDfa['states']): number[] {
  const needs = states.map(() => Number.POSITIVE_INFINITY);
  const sources: number[][] = states.map(() => []);
  for (const [from, { bytes }] of states.entries()) for (const { to } of bytes) sources[to]?.push(from);
  let open = states.flatMap(({ accepts }, state) => (accepts ? [state] : []));
  for (const state of open) needs[state] = 0;
  for (let need = 0; open.length > 0; need++) {
    const later: number[] = [];
    const now = new Set(open);
    for (const state of now) {
      // The first quote ends no character.
      for (const from of sources[state] as number[]) {
        const cost = states[state]?.between === true && from !== 0 ? 1 : 0;
        if ((needs[from] as number) <= need + cost) continue;
        needs[from] = need + cost;
        if (cost === 0) now.add(from);
        else later.push(from);
      }
    }
    open = later.filter((state) => needs[state] === need + 1);
  }
  return needs;
}

function keyOf(tables: Omit<GrammarTables, 'key'>): string {
  const hash = createHash('sha256');
  for (const [name, value] of Object.entries(tables)) {
    hash.update(name);
    hash.update(ArrayBuffer.isView(value) ? new Uint8Array(value.buffer) : JSON.stringify(value));
  }
  return hash.digest('base64');
}

class EdgeLists {
  readonly #columns: number[][];
  readonly #starts = [0];

  constructor(columns: number) {
    this.#columns = Array.from({ length: columns }, () => []);
  }

  get starts(): Int32Array {
    return Int32Array.from(this.#starts);
  }

  push(...values: readonly number[]): void {
    for (const [at, value] of values.entries()) (this.#columns[at] as number[]).push(value);
  }

  close(): void {
    this.#starts.push((this.#columns[0] as number[]).length);
  }

  column(at: number): readonly number[] {
    return this.#columns[at] as number[];
  }
}
