// Finds living states, from which the end can be reached, and left recursion.

import type { RuleDfa } from './determinize.ts';

/** By rule and state. */
export function livingStates(dfas: readonly RuleDfa[]): boolean[][] {
  const alive = dfas.map(({ states }) => states.map(() => false));
  const readers = dfas.map(({ states }) => states.map(() => [] as number[]));
  /** By rule and state, the calls that return there. */
  const callers = dfas.map(({ states }) => states.map(() => [] as { from: number; called: number }[]));
  /** By called rule, calls that return once it is known to end. */
  const waiting: { rule: number; from: number }[][] = dfas.map(() => []);
  const open: [rule: number, state: number][] = [];
  const revive = (rule: number, state: number) => {
    const row = alive[rule] as boolean[];
    if (row[state] === true) return;
    row[state] = true;
    open.push([rule, state]);
  };
  for (const [rule, { states }] of dfas.entries()) {
    for (const [from, { accepts, bytes, tokens, controls, calls }] of states.entries()) {
      for (const { to } of [...bytes, ...tokens, ...controls]) readers[rule]?.[to]?.push(from);
      for (const { rule: called, to } of calls) callers[rule]?.[to]?.push({ from, called });
      if (accepts) revive(rule, from);
    }
  }
  for (let next = open.pop(); next !== undefined; next = open.pop()) {
    const [rule, state] = next;
    for (const from of readers[rule]?.[state] ?? []) revive(rule, from);
    for (const { from, called } of callers[rule]?.[state] ?? []) {
      if (alive[called]?.[0] === true) revive(rule, from);
      else waiting[called]?.push({ rule, from });
    }
    if (state === 0) for (const { rule: caller, from } of waiting[rule] ?? []) revive(caller, from);
  }
  return alive;
}

/** A rule that calls itself, perhaps through others, before reading anything. */
export function leftRecursion(dfas: readonly RuleDfa[]): number | undefined {
  const silent = silentRules(dfas);
  const called = dfas.map(({ states }) => {
    const rules = new Set<number>();
    const seen = new Set([0]);
    for (const state of seen) {
      for (const { rule, to } of states[state]?.calls ?? []) {
        rules.add(rule);
        if (silent[rule] === true) seen.add(to);
      }
    }
    return [...rules];
  });
  return cycleIn(called);
}

function silentRules(dfas: readonly RuleDfa[]): boolean[] {
  const silent = dfas.map(() => false);
  for (let changed = true; changed; ) {
    changed = false;
    for (const [rule, { states }] of dfas.entries()) {
      if (silent[rule] === true) continue;
      const seen = new Set([0]);
      for (const state of seen) {
        for (const { rule: called, to } of states[state]?.calls ?? [])
          if (silent[called] === true) seen.add(to);
      }
      if (![...seen].some((state) => states[state]?.accepts === true)) continue;
      silent[rule] = true;
      changed = true;
    }
  }
  return silent;
}

function cycleIn(edges: readonly (readonly number[])[]): number | undefined {
  const state = new Uint8Array(edges.length);
  for (const start of edges.keys()) {
    const path: [node: number, next: number][] = [[start, 0]];
    if (state[start] !== 0) continue;
    state[start] = 1;
    for (let top = path.at(-1); top !== undefined; top = path.at(-1)) {
      const to = edges[top[0]]?.[top[1]++];
      if (to === undefined) {
        state[top[0]] = 2;
        path.pop();
      } else if (state[to] === 1) return to;
      else if (state[to] === 0) {
        state[to] = 1;
        path.push([to, 0]);
      }
    }
  }
  return undefined;
}
