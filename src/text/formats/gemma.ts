// Gemma 4 and FunctionGemma: `call:NAME{key:value,…}` between marks, with a mark around strings instead of quotes.
// Passed on when the braces close.

import { choice, type Expression, sequence, text } from '../../grammar/expression.ts';
import { anyNumber, free, mark, oneOf, schema, triggered } from './call-grammar.ts';
import type { FormatName, Tool } from './format.ts';
import { keyOf, type LiteralStyle, listed, literal, plainWord } from './literal.ts';
import {
  objectText,
  type Parameter,
  parameterList,
  parametersByName,
  resolved,
  type Schema,
  stringsOf,
  within,
} from './parameters.ts';
import type { Reading, Tape } from './tape.ts';
import type { ToolFormat } from './tool-format.ts';

function gemmaCalls(name: FormatName, open: string, close: string, quote: string): ToolFormat {
  const style: LiteralStyle = {
    key: /^[^\s:{}[\],]$/,
    *string(tape) {
      return (yield* tape.took(quote)) ? yield* tape.until(quote) : undefined;
    },
    word: (spelled) => plainWord(spelled) ?? (spelled === '' ? undefined : JSON.stringify(spelled)),
  };

  function* readMember(
    tape: Tape,
    parameters: ReadonlyMap<string, Parameter>,
  ): Reading<[string, string] | undefined> {
    const key = yield* keyOf(tape, style);
    if (key === undefined || !(yield* tape.tookBehindSpace(':'))) return undefined;
    const json = yield* literal(tape, style);
    if (json === undefined) return undefined;
    // A string that was written bare may look like a number.
    const bare = parameters.get(key)?.isString === true && !json.startsWith('"');
    return [key, bare ? JSON.stringify(json) : json];
  }

  return {
    name,
    marks: [open, close, quote],
    grammar: (tools, mode, parallel) =>
      triggered(mode, parallel, {
        triggers: [open],
        separator: sequence(),
        block: sequence(
          mark(open),
          oneOf(tools, (tool) => sequence(text(`call:${tool.name}`), object(tool, quote, 0))),
          mark(close),
        ),
      }),
    *read(tape, writer) {
      if (!(yield* tape.took(open))) return false;
      yield* tape.skipSpace();
      if (!(yield* tape.took('call:'))) return false;
      const tool = yield* writer.named(tape);
      if (tool === undefined || !(yield* tape.took('{'))) return false;
      const parameters = parametersByName(tool);
      const values = yield* listed(tape, '}', () => readMember(tape, parameters));
      if (values === undefined) return false;
      writer.whole(tool, objectText(new Map(values)));
      yield* tape.tookBehindSpace(close);
      return true;
    },
  };
}

/** Deeper ones may hold anything: schemas may refer to themselves. */
const deepest = 6;

function object(of: Pick<Tool, 'parameters'>, quote: string, depth: number): Expression {
  const tool: Tool = { name: '', strict: false, parameters: of.parameters };
  const members = parameterList(tool, text(','), ({ name, schema: part }) =>
    sequence(text(`${name}:`), value(part, quote, depth + 1)),
  );
  return sequence(text('{'), members, text('}'));
}

function value(given: Schema, quote: string, depth: number): Expression {
  const of = resolved(given);
  const options = of.anyOf ?? of.oneOf;
  if (depth <= deepest && Array.isArray(options))
    return choice(...options.map((option) => value(within(of, option), quote, depth + 1)));
  if (depth <= deepest && Array.isArray(of.type))
    return choice(...of.type.map((type) => value({ ...of, type }, quote, depth + 1)));
  const strings = stringsOf(of);
  if (strings !== undefined)
    return choice(...strings.map((known) => sequence(mark(quote), text(known), mark(quote))));
  if (of.type === 'string') return string(quote);
  if (of.type === 'object' && depth <= deepest) return object({ parameters: of }, quote, depth);
  if (of.type === 'array' && depth <= deepest) {
    const item = value(within(of, of.items), quote, depth + 1);
    return sequence(
      text('['),
      choice(sequence(), sequence(item, anyNumber(sequence(text(','), item)))),
      text(']'),
    );
  }
  const scalar = ['number', 'integer', 'boolean', 'null'];
  if (scalar.includes(String(of.type))) return schema(of);
  return choice(string(quote), schema({ type: scalar }));
}

function string(quote: string): Expression {
  return sequence(mark(quote), free(quote), mark(quote));
}

export const gemma = gemmaCalls('gemma', '<|tool_call>', '<tool_call|>', '<|"|>');
export const functiongemma = gemmaCalls(
  'functiongemma',
  '<start_function_call>',
  '<end_function_call>',
  '<escape>',
);
