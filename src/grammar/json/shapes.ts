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

interface ArrayShape {
  readonly prefix: readonly Node[];
  readonly rest: Node | undefined;
  readonly least: number;
  readonly most: number | undefined;
}

/** State 2 + n: n items have been read. */
export function arrayNode(book: RuleBook, { prefix, rest, least, most }: ArrayShape): Node {
  const end = Math.min(
    most ?? Number.POSITIVE_INFINITY,
    rest === undefined ? prefix.length : Number.POSITIVE_INFINITY,
  );
  const last = Number.isFinite(end) ? end : Math.max(prefix.length, least, 1);
  if (last > MAX_STATES) throw tooLarge("'minItems' or 'maxItems'");
  const edges: NetworkEdge[] = [[0, open('[', book), 2]];
  for (let count = 0; count <= last; count++) {
    const item = prefix[count] ?? rest;
    const to = count < last ? count + 1 : count;
    if (item !== undefined && (count < last || !Number.isFinite(end))) {
      edges.push([2 + count, separated(count === 0, [item], book), 2 + to]);
    }
    if (count >= least) edges.push([2 + count, close(']', book), 1]);
  }
  return { kind: 'network', states: last + 3, edges };
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
}

/** A state is how many properties have been decided on and how many are present, as far as that matters. */
export function objectNode(book: RuleBook, { properties, others, least, most }: ObjectShape): Node {
  const counted = Math.max(1, least, most === undefined ? 0 : most + 1);
  const width = Math.min(counted, properties.length + (others.length === 0 ? 0 : counted)) + 1;
  if (width * (properties.length + 1) > MAX_STATES) throw tooLarge("'minProperties' or 'maxProperties'");
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
    if (there >= least) edges.push([all, close('}', book), 1]);
  }
  return { kind: 'network', states: 2 + width * (properties.length + 1), edges };
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
