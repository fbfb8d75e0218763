// Determinizes a rule: each byte, call and token leads to one state. Calls count as symbols, so that the choice
// between reading a byte and calling a rule remains.

import type { ByteEdge, ByteNfa, CallEdge, ControlEdge, TokenEdge } from './byte-nfa.ts';
import { tooLarge } from './grammar-error.ts';

interface RuleState {
  readonly accepts: boolean;
  readonly bytes: readonly ByteEdge[];
  readonly calls: readonly CallEdge[];
  readonly tokens: readonly TokenEdge[];
  readonly controls: readonly ControlEdge[];
  /** Whether it is between two characters of a counted string. */
  readonly between: boolean;
}

/** State 0 is the start. */
export interface RuleDfa {
  readonly states: readonly RuleState[];
}

const MAX_STATES = 200_000;
/** Members of all subsets together: they take time and memory. */
const MAX_MEMBERS = 4_000_000;

export function determinize(nfa: ByteNfa, start: number, end: number): RuleDfa {
  const subsets = new Subsets(nfa);
  subsets.numberOf([start]);
  const states: RuleState[] = [];
  for (let at = 0; at < subsets.count; at++) {
    const members = subsets.at(at);
    const edges = members.map((member) => nfa.at(member));
    const controls = grouped(
      edges.flatMap(({ controls: some }) => some),
      ({ without }) => without.join(),
    );
    states.push({
      accepts: members.includes(end),
      bytes: byteEdges(
        edges.flatMap(({ bytes }) => bytes),
        subsets,
      ),
      calls: grouped(
        edges.flatMap(({ calls }) => calls),
        ({ rule }) => String(rule),
      ).map(([{ rule }, targets]) => ({ rule, to: subsets.numberOf(targets) })),
      tokens: grouped(
        edges.flatMap(({ tokens }) => tokens),
        ({ token }) => String(token),
      ).map(([{ token }, targets]) => ({ token, to: subsets.numberOf(targets) })),
      controls: controls.map(([{ without }, targets]) => ({ without, to: subsets.numberOf(targets) })),
      between: subsets.isBetween(at),
    });
  }
  return { states };
}

function byteEdges(edges: readonly ByteEdge[], subsets: Subsets): ByteEdge[] {
  if (edges.length === 0) return [];
  const borders = new Set<number>();
  for (const { first, last } of edges) borders.add(first).add(last + 1);
  const cuts = [...borders].sort((a, b) => a - b);
  const targets: number[][] = cuts.map(() => []);
  const indexOf = new Map(cuts.map((cut, index) => [cut, index]));
  for (const { first, last, to } of edges) {
    const end = indexOf.get(last + 1) as number;
    for (let at = indexOf.get(first) as number; at < end; at++) (targets[at] as number[]).push(to);
  }
  const result: { first: number; last: number; to: number }[] = [];
  for (const [index, reached] of targets.entries()) {
    if (reached.length === 0) continue;
    const to = subsets.numberOf(reached);
    const first = cuts[index] as number;
    const last = (cuts[index + 1] as number) - 1;
    const before = result.at(-1);
    if (before !== undefined && before.to === to && before.last === first - 1) before.last = last;
    else result.push({ first, last, to });
  }
  return result;
}

function grouped<Edge extends { readonly to: number }>(
  edges: readonly Edge[],
  nameOf: (edge: Edge) => string,
): [Edge, number[]][] {
  const groups = new Map<string, [Edge, number[]]>();
  for (const edge of edges) {
    const name = nameOf(edge);
    const group = groups.get(name);
    if (group === undefined) groups.set(name, [edge, [edge.to]]);
    else group[1].push(edge.to);
  }
  return [...groups.values()];
}

class Subsets {
  readonly #nfa: ByteNfa;
  readonly #numbers = new Map<string, number>();
  readonly #subsets: number[][] = [];
  readonly #between = new Set<number>();
  #members = 0;

  constructor(nfa: ByteNfa) {
    this.#nfa = nfa;
  }

  get count(): number {
    return this.#subsets.length;
  }

  at(number: number): readonly number[] {
    return this.#subsets[number] as number[];
  }

  isBetween(number: number): boolean {
    return this.#between.has(number);
  }

  /** The number of the set's epsilon closure. */
  numberOf(states: readonly number[]): number {
    const closed = new Set(states);
    for (const state of closed) for (const next of this.#nfa.at(state).silent) closed.add(next);
    // States with silent edges alone add nothing.
    const members = [...closed].filter((state) => this.#matters(state)).sort((a, b) => a - b);
    const name = members.join();
    const known = this.#numbers.get(name);
    if (known !== undefined) return known;
    this.#members += members.length;
    if (this.#subsets.length >= MAX_STATES || this.#members > MAX_MEMBERS) throw tooLarge('a rule');
    this.#numbers.set(name, this.#subsets.length);
    const { between } = this.#nfa;
    if (between.size > 0 && [...closed].some((state) => between.has(state)))
      this.#between.add(this.#subsets.length);
    return this.#subsets.push(members) - 1;
  }

  #matters(state: number): boolean {
    const { silent, bytes, calls, tokens, controls } = this.#nfa.at(state);
    return silent.length === 0 || bytes.length + calls.length + tokens.length + controls.length > 0;
  }
}
