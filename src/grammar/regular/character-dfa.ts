// Regular languages as deterministic automata over characters. States that cannot reach the end are removed, so that
// an empty language has no states.

import { GrammarError, tooLarge } from '../grammar-error.ts';
import {
  type CodePoints,
  classesOf,
  everyCodePoint,
  intersect as intersectSets,
  type Partition,
  partition,
  union as unionOfSets,
} from './code-points.ts';

export interface CharacterEdge {
  readonly set: CodePoints;
  readonly to: number;
}

export interface CharacterDfa {
  /** State 0 is the start; without states the language is empty. */
  readonly states: readonly { readonly accepts: boolean; readonly edges: readonly CharacterEdge[] }[];
}

export const MAX_STATES = 20_000;

export const anyText: CharacterDfa = { states: [{ accepts: true, edges: [{ set: everyCodePoint, to: 0 }] }] };

export function distinct(sets: readonly CodePoints[]): CodePoints[] {
  return [...new Map(sets.map((set) => [set.join(';'), set])).values()];
}

/** Removes dead states and joins the classes between two states. */
export function trimmed(
  table: readonly ReadonlyMap<number, number>[],
  accepts: readonly boolean[],
  { parts }: Partition,
): CharacterDfa {
  const alive = productive(
    table.map((row) => [...row.values()]),
    accepts,
  );
  if (alive[0] !== true) return { states: [] };
  const numbers = new Map<number, number>();
  for (const [state, lives] of alive.entries()) if (lives) numbers.set(state, numbers.size);
  const states = [...numbers.keys()].map((state) => {
    const byTarget = new Map<number, CodePoints[]>();
    for (const [one, to] of table[state] as ReadonlyMap<number, number>) {
      if (alive[to] !== true) continue;
      const sets = byTarget.get(to) ?? [];
      sets.push(parts[one] as CodePoints);
      byTarget.set(to, sets);
    }
    const edges = [...byTarget].map(([to, sets]) => ({
      set: unionOfSets(...sets),
      to: numbers.get(to) as number,
    }));
    return { accepts: accepts[state] === true, edges };
  });
  return { states };
}

function productive(targets: readonly (readonly number[])[], accepts: readonly boolean[]): boolean[] {
  const sources: number[][] = targets.map(() => []);
  for (const [from, row] of targets.entries()) for (const to of row) (sources[to] as number[]).push(from);
  const alive = [...accepts];
  const open = alive.flatMap((lives, state) => (lives ? [state] : []));
  for (let state = open.pop(); state !== undefined; state = open.pop()) {
    for (const from of sources[state] as number[]) {
      if (alive[from] === true) continue;
      alive[from] = true;
      open.push(from);
    }
  }
  return alive;
}

export function intersection(a: CharacterDfa, b: CharacterDfa): CharacterDfa {
  return product(a, b, (inA, inB) => inA && inB);
}

export function difference(a: CharacterDfa, b: CharacterDfa): CharacterDfa {
  return product(a, b, (inA, inB) => inA && !inB);
}

export function union(a: CharacterDfa, b: CharacterDfa): CharacterDfa {
  return difference(anyText, difference(difference(anyText, a), b));
}

/** -1 is the dead state. */
function product(
  a: CharacterDfa,
  b: CharacterDfa,
  keeps: (inA: boolean, inB: boolean) => boolean,
): CharacterDfa {
  if (a.states.length === 0) return a;
  const sets = [a, b].flatMap(({ states }) => states.flatMap(({ edges }) => edges.map(({ set }) => set)));
  const parts = partition(distinct(sets));
  const rowsOf = ({ states }: CharacterDfa) =>
    states.map(
      ({ edges }) =>
        new Map(edges.flatMap(({ set, to }) => classesOf(parts, set).map((one) => [one, to] as const))),
    );
  const [rowsA, rowsB] = [rowsOf(a), rowsOf(b)];
  const pairs: [number, number][] = [[0, b.states.length === 0 ? -1 : 0]];
  const numbers = new Map<string, number>([[(pairs[0] as [number, number]).join(), 0]]);
  const table: Map<number, number>[] = [];
  for (let state = 0; state < pairs.length; state++) {
    const [inA, inB] = pairs[state] as [number, number];
    const row = new Map<number, number>();
    for (const [one, toA] of rowsA[inA] as Map<number, number>) {
      const pair: [number, number] = [toA, inB < 0 ? -1 : (rowsB[inB]?.get(one) ?? -1)];
      const name = pair.join();
      let number = numbers.get(name);
      if (number === undefined) {
        number = pairs.length;
        if (number >= MAX_STATES) throw tooLarge('a text that several rules hold for');
        numbers.set(name, number);
        pairs.push(pair);
      }
      row.set(one, number);
    }
    table.push(row);
  }
  const accepts = pairs.map(([inA, inB]) =>
    keeps(a.states[inA]?.accepts === true, b.states[inB]?.accepts === true),
  );
  return trimmed(table, accepts, parts);
}

export function textsDfa(texts: readonly string[]): CharacterDfa {
  const states: { accepts: boolean; next: Map<number, number> }[] = [{ accepts: false, next: new Map() }];
  for (const text of texts) {
    let at = 0;
    for (const character of text) {
      const codePoint = character.codePointAt(0) as number;
      if (intersectSets([[codePoint, codePoint]], everyCodePoint).length === 0) {
        throw new GrammarError('unsupported', 'half a surrogate pair is no character');
      }
      const { next } = states[at] as { next: Map<number, number> };
      let to = next.get(codePoint);
      if (to === undefined) {
        to = states.length;
        if (to >= MAX_STATES * 20) throw tooLarge('a list of texts');
        states.push({ accepts: false, next: new Map() });
        next.set(codePoint, to);
      }
      at = to;
    }
    (states[at] as { accepts: boolean }).accepts = true;
  }
  if (texts.length === 0) return { states: [] };
  return {
    states: states.map(({ accepts, next }) => ({
      accepts,
      edges: [...next].map(([codePoint, to]) => ({ set: [[codePoint, codePoint]] as const, to })),
    })),
  };
}

export function lengthDfa(least: number, most: number | undefined): CharacterDfa {
  const count = (most ?? least) + 1;
  if (count > MAX_STATES) throw tooLarge('the length of a text');
  const states = Array.from({ length: count }, (_, length) => {
    const isLast = length === count - 1;
    const edges =
      isLast && most !== undefined ? [] : [{ set: everyCodePoint, to: isLast ? length : length + 1 }];
    return { accepts: length >= least, edges };
  });
  return { states };
}

export function accepts(dfa: CharacterDfa, text: string): boolean {
  if (dfa.states.length === 0) return false;
  let state = 0;
  for (const character of text) {
    const codePoint = character.codePointAt(0) as number;
    const edge = dfa.states[state]?.edges.find(({ set }) =>
      set.some(([first, last]) => first <= codePoint && codePoint <= last),
    );
    if (edge === undefined) return false;
    state = edge.to;
  }
  return dfa.states[state]?.accepts === true;
}

/** The length of the shortest text; infinite where there is none. */
export function shortest({ states }: CharacterDfa): number {
  const lengths = new Map<number, number>(states.length === 0 ? [] : [[0, 0]]);
  for (const [state, length] of lengths) {
    if (states[state]?.accepts === true) return length;
    for (const { to } of states[state]?.edges ?? []) if (!lengths.has(to)) lengths.set(to, length + 1);
  }
  return Number.POSITIVE_INFINITY;
}
