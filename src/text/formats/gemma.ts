// Gemma 4 and FunctionGemma: `call:NAME{key:value,…}` between marks, with a mark around strings instead of quotes.
// Emitted when the braces close.

import { sequence, text } from '../../grammar/expression.ts';
import { mark, objectSchema, oneOf, triggered } from './call-grammar.ts';
import type { FormatName, ToolFormat } from './format.ts';
import { keyOf, type LiteralStyle, listed, literal, plainWord } from './literal.ts';
import { objectStart, objectText, type Parameter, parametersByName } from './parameters.ts';
import type { Reading, Tape } from './tape.ts';

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
    // A bare string may look like a number.
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
          oneOf(tools, (tool) =>
            sequence(text(`call:${tool.name}`), objectSchema(tool, { quote, without: quote })),
          ),
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
      writer.pend(tool);
      const values = new Map<string, string>();
      const members = yield* listed(tape, '}', function* () {
        const member = yield* readMember(tape, parameters);
        if (member !== undefined) writer.pendArguments(objectStart(values.set(...member)), false);
        return member;
      });
      if (members === undefined) return false;
      writer.whole(tool, objectText(values));
      yield* tape.tookBehindSpace(close);
      return true;
    },
  };
}

export const gemma = gemmaCalls('gemma', '<|tool_call>', '<tool_call|>', '<|"|>');
export const functiongemma = gemmaCalls(
  'functiongemma',
  '<start_function_call>',
  '<end_function_call>',
  '<escape>',
);
