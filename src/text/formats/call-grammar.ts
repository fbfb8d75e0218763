// Grammar parts that several formats share.

import {
  choice,
  type Expression,
  optional,
  type StringMarks,
  sequence,
  text,
} from '../../grammar/expression.ts';
import type { Tool } from './answer-part.ts';
import type { CallMode } from './format.ts';

export function mark(spelled: string): Expression {
  return { kind: 'mark', text: spelled };
}

export function free(...without: readonly string[]): Expression {
  return { kind: 'free', without };
}

/** Where the tool is not strict, the schema is enforced as far as possible. */
export function schema(of: unknown, { strict }: Tool, strings?: StringMarks): Expression {
  return {
    kind: 'schema',
    schema: of,
    ...(strict ? {} : { lenient: 'type' }),
    ...(strings === undefined ? {} : { strings }),
  };
}

export function objectSchema(tool: Tool, strings?: StringMarks): Expression {
  const given = tool.parameters as Readonly<Record<string, unknown>>;
  const types = [given.type ?? 'object'].flat();
  return schema(types.includes('object') ? { ...given, type: 'object' } : false, tool, strings);
}

export function anyNumber(part: Expression): Expression {
  return { kind: 'repeat', part, least: 0 };
}

/** Blanks between parts. Few, so that no model loops in them. */
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

export function several(part: Expression, separator: Expression, parallel: boolean): Expression {
  return parallel ? sequence(part, anyNumber(sequence(separator, part))) : part;
}

interface Triggered {
  readonly triggers: readonly string[];
  /** Begins with a trigger. */
  readonly block: Expression;
  /** Between blocks; undefined where a block holds all calls. */
  readonly separator?: Expression | undefined;
}

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

/** Any character except these and surrogates. */
function charactersBut(...excluded: readonly string[]): Expression {
  const points = excluded.map((character) => character.charCodeAt(0)).sort((a, b) => a - b);
  const starts = [0, ...points.map((point) => point + 1), 0xe000];
  const ends = [...points.map((point) => point - 1), 0xd7ff, 0x10ffff];
  const ranges = starts.map((start, index) => [start, ends[index] ?? start] as const);
  return { kind: 'characters', ranges: ranges.filter(([first, last]) => first <= last) };
}

/** Calls recognized by their position alone: they are the whole answer, and no other answer begins as they do. */
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
