// Pieces that the grammars of several formats are made of.

import {
  choice,
  type Expression,
  optional,
  type StringMarks,
  sequence,
  text,
} from '../../grammar/expression.ts';
import type { CallMode, Tool } from './format.ts';

export function mark(spelled: string): Expression {
  return { kind: 'mark', text: spelled };
}

export function free(...without: readonly string[]): Expression {
  return { kind: 'free', without };
}

/** A value of a tool's. Where the tool is not strict, it is held to its schema as far as that can be enforced. */
export function schema(of: unknown, { strict }: Tool, strings?: StringMarks): Expression {
  return {
    kind: 'schema',
    schema: of,
    ...(strict ? {} : { lenient: true }),
    ...(strings === undefined ? {} : { strings }),
  };
}

/** All arguments of a call as one object, whatever else the schema would allow. */
export function objectSchema(tool: Tool, strings?: StringMarks): Expression {
  const given = tool.parameters as Readonly<Record<string, unknown>>;
  const types = [given.type ?? 'object'].flat();
  return schema(types.includes('object') ? { ...given, type: 'object' } : false, tool, strings);
}

export function anyNumber(part: Expression): Expression {
  return { kind: 'repeat', part, least: 0 };
}

/** Blanks that models put between parts. Few, so that none gets caught in them. */
export const gap: Expression = {
  kind: 'repeat',
  part: {
    kind: 'characters',
    ranges: [
      [0x0a, 0x0a],
      [0x20, 0x20],
    ],
  },
  least: 0,
  most: 4,
};

export function oneOf(tools: readonly Tool[], spell: (tool: Tool) => Expression): Expression {
  return choice(...tools.map(spell));
}

/** One or more, or one alone. */
export function several(part: Expression, separator: Expression, parallel: boolean): Expression {
  return parallel ? sequence(part, anyNumber(sequence(separator, part))) : part;
}

interface Triggered {
  readonly triggers: readonly string[];
  /** Begins with one of the triggers. */
  readonly block: Expression;
  /** What stands between blocks; nothing where a block holds all calls. */
  readonly separator?: Expression | undefined;
}

/** Text in which a trigger begins a block, or blocks alone. */
export function triggered(
  mode: CallMode,
  parallel: boolean,
  { triggers, block, separator }: Triggered,
): Expression {
  const more = parallel && separator !== undefined;
  if (mode === 'required') return more ? several(block, separator, true) : block;
  const part = sequence(block, free(...triggers));
  const most = more ? undefined : 1;
  return sequence(free(...triggers), { kind: 'repeat', part, least: 0, most });
}

/** Any one character but these, and no halves of characters. */
function charactersBut(...excluded: readonly string[]): Expression {
  const points = excluded.map((character) => character.charCodeAt(0)).sort((a, b) => a - b);
  const starts = [0, ...points.map((point) => point + 1), 0xe000];
  const ends = [...points.map((point) => point - 1), 0xd7ff, 0x10ffff];
  const ranges = starts.map((start, index) => [start, ends[index] ?? start] as const);
  return { kind: 'characters', ranges: ranges.filter(([first, last]) => first <= last) };
}

/** Calls that only their place tells from text: they are the whole answer, and no other answer begins as they do. */
export function leading(
  mode: CallMode,
  calls: Expression,
  first: string,
  triggers: readonly string[],
): Expression {
  if (mode === 'required') return calls;
  const other = sequence(charactersBut(first, ' ', '\n', '\r', '\t'), free(...triggers));
  return choice(calls, optional(other));
}

/** A call as a JSON object. */
export function jsonCallGrammar(tool: Tool, argumentsKey: 'arguments' | 'parameters'): Expression {
  return sequence(
    text(`{"name": ${JSON.stringify(tool.name)}, "${argumentsKey}": `),
    objectSchema(tool),
    text('}'),
  );
}

export function jsonListGrammar(tools: readonly Tool[], parallel: boolean): Expression {
  const call = oneOf(tools, (tool) => jsonCallGrammar(tool, 'arguments'));
  return sequence(text('['), several(call, text(', '), parallel), text(']'));
}
