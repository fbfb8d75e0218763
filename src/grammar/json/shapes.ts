// JSON arrays and objects as rules, with white space between their parts.

import { tooLarge } from '../grammar-error.ts';
import { codePoints } from '../regular/code-points.ts';
import type { NetworkEdge, Node, RuleBook } from '../rules.ts';

/** Models can waste an answer on unbounded white space. */
const MAX_BLANKS = 2;
const MAX_LINES = 2;
const MAX_INDENT = 64;
const MAX_STATES = 20_000;

const blank: Node = {
  kind: 'characters',
  set: codePoints([
    [0x09, 0x09],
    [0x20, 0x20],
  ]),
};
const line: Node = {
  kind: 'choice',
  options: [
    { kind: 'text', text: '\n' },
    { kind: 'text', text: '\r\n' },
  ],
};

function space(book: RuleBook): Node {
  return book.named('space', () => ({
    kind: 'choice',
    options: [
      { kind: 'repeat', part: blank, least: 0, most: MAX_BLANKS },
      {
        kind: 'sequence',
        parts: [
          { kind: 'repeat', part: line, least: 1, most: MAX_LINES },
          { kind: 'repeat', part: blank, least: 0, most: MAX_INDENT },
        ],
      },
    ],
  }));
}

/** What an array may be after the items so far. The start is never returned to. */
export interface ArrayStates<State> {
  readonly start: State;
  /** Equal names, equal states. */
  nameOf(state: State): string;
  next(state: State): readonly (readonly [item: Node, to: State])[];
  isEnd(state: State): boolean;
}

export function arrayNode<State>(book: RuleBook, states: ArrayStates<State>): Node {
  const found = [states.start];
  const numbers = new Map([[states.nameOf(states.start), 2]]);
  const numberOf = (state: State) => {
    const name = states.nameOf(state);
    const known = numbers.get(name);
    if (known !== undefined) return known;
    if (found.length >= MAX_STATES) throw tooLarge("the number of an array's items");
    numbers.set(name, found.push(state) + 1);
    return found.length + 1;
  };
  const edges: NetworkEdge[] = [[0, open('[', book), 2]];
  const later = new Map<Node, Node>();
  const afterComma = (item: Node) => {
    const known = later.get(item) ?? separated(false, [item], book);
    later.set(item, known);
    return known;
  };
  for (const state of found) {
    const from = numberOf(state);
    for (const [item, to] of states.next(state))
      edges.push([from, state === states.start ? item : afterComma(item), numberOf(to)]);
    if (states.isEnd(state)) edges.push([from, close(']', book), 1]);
  }
  return { kind: 'network', states: found.length + 2, edges };
}

/** These items and no others. */
export function tupleNode(book: RuleBook, items: readonly Node[]): Node {
  return arrayNode<number>(book, {
    start: 0,
    nameOf: String,
    next: (count) => (count < items.length ? [[items[count] as Node, count + 1]] : []),
    isEnd: (count) => count === items.length,
  });
}

export interface Property {
  readonly key: Node;
  readonly value: Node;
  readonly required: boolean;
}

interface ObjectShape {
  readonly properties: readonly Property[];
  readonly others: readonly Omit<Property, 'required'>[];
  readonly least: number;
  readonly most: number | undefined;
  /** One of these must come last; undefined where none must. */
  readonly last?: readonly Omit<Property, 'required'>[] | undefined;
}

/** A state is how many properties have been decided on and how many are present, as far as that matters. */
export function objectNode(book: RuleBook, { properties, others, least, most, last }: ObjectShape): Node {
  const counted = Math.max(1, least, most === undefined ? 0 : most + 1);
  const isOpen = others.length > 0 || last !== undefined;
  const width = Math.min(counted, properties.length + (isOpen ? counted : 0)) + 1;
  if (width * (properties.length + 2) > MAX_STATES) throw tooLarge("'minProperties' or 'maxProperties'");
  const stateOf = (decided: number, there: number) => 2 + decided * width + Math.min(there, width - 1);
  const isFull = (there: number) => most !== undefined && there >= most;
  const edges: NetworkEdge[] = [[0, open('{', book), stateOf(0, 0)]];
  const add = (from: number, there: number, { key, value }: Omit<Property, 'required'>, to: number) => {
    const gap = space(book);
    edges.push([from, separated(there === 0, [key, gap, { kind: 'text', text: ':' }, gap, value], book), to]);
  };
  for (let there = 0; there < width; there++) {
    for (const [at, property] of properties.entries()) {
      const from = stateOf(at, there);
      if (!isFull(there)) add(from, there, property, stateOf(at + 1, there + 1));
      if (!property.required) edges.push([from, { kind: 'sequence', parts: [] }, stateOf(at + 1, there)]);
    }
    const all = stateOf(properties.length, there);
    if (!isFull(there))
      for (const other of others) add(all, there, other, stateOf(properties.length, there + 1));
    const end = stateOf(properties.length + 1, there);
    if (last === undefined) edges.push([all, { kind: 'sequence', parts: [] }, end]);
    else if (!isFull(there))
      for (const one of last) add(all, there, one, stateOf(properties.length + 1, there + 1));
    if (there >= least) edges.push([end, close('}', book), 1]);
  }
  return { kind: 'network', states: 2 + width * (properties.length + 2), edges };
}

function open(bracket: string, book: RuleBook): Node {
  return { kind: 'sequence', parts: [{ kind: 'text', text: bracket }, space(book)] };
}

function close(bracket: string, book: RuleBook): Node {
  return { kind: 'sequence', parts: [space(book), { kind: 'text', text: bracket }] };
}

function separated(isFirst: boolean, parts: readonly Node[], book: RuleBook): Node {
  if (isFirst) return { kind: 'sequence', parts };
  const gap = space(book);
  return { kind: 'sequence', parts: [gap, { kind: 'text', text: ',' }, gap, ...parts] };
}
