// Calls in tags that name function and parameter: Qwen3-Coder, Qwen3.5 and Seed-OSS. Values stand there without
// quotes; a call is passed on when it is complete.

import { type Expression, sequence, text } from '../../grammar/expression.ts';
import type { AnswerWriter } from './answer-writer.ts';
import { mark, oneOf, triggered } from './call-grammar.ts';
import type { FormatName, Tool } from './format.ts';
import {
  asJson,
  bareValue,
  objectStart,
  objectText,
  parameterName,
  parameterRow,
  parametersByName,
} from './parameters.ts';
import type { Reading, Tape } from './tape.ts';
import type { ToolFormat } from './tool-format.ts';

function functionTags(name: FormatName, open: string, close: string): ToolFormat {
  const spell = (tool: Tool): Expression =>
    sequence(
      text(`<function=${tool.name}>\n`),
      parameterRow(tool, (parameter) =>
        sequence(
          text(`<parameter=${parameter.name}>\n`),
          bareValue(parameter, tool, '</parameter>'),
          text('\n</parameter>\n'),
        ),
      ),
      text('</function>\n'),
    );
  return {
    name,
    marks: [open, close],
    grammar: (tools, mode, parallel) =>
      triggered(mode, parallel, {
        triggers: [open],
        separator: text('\n'),
        block: sequence(mark(open), text('\n'), oneOf(tools, spell), mark(close)),
      }),
    *read(tape, writer) {
      if (!(yield* tape.took(open))) return false;
      yield* tape.skipSpace();
      if (!(yield* tape.took('<function='))) return false;
      const tool = yield* writer.named(tape);
      if (tool === undefined || !(yield* tape.took('>'))) return false;
      writer.pend(tool);
      const values = yield* taggedValues(tape, writer, tool);
      if (values === undefined) return false;
      writer.whole(tool, objectText(values));
      yield* tape.tookBehindSpace(close);
      return true;
    },
  };
}

/** Up to the end of the function. */
function* taggedValues(
  tape: Tape,
  writer: AnswerWriter,
  tool: Tool,
): Reading<ReadonlyMap<string, string> | undefined> {
  const parameters = parametersByName(tool);
  const values = new Map<string, string>();
  for (;;) {
    yield* tape.skipSpace();
    if (yield* tape.took('</function>')) return values;
    if (!(yield* tape.took('<parameter='))) return undefined;
    const name = yield* parameterName(tape, parameters, '>');
    const value = yield* tape.until('</parameter>');
    if (name === undefined || value === undefined) return undefined;
    // Templates put each value on lines of its own.
    const bare = value.replace(/^\n/, '').replace(/\n$/, '');
    values.set(name, asJson(bare, parameters.get(name)));
    writer.pendArguments(objectStart(values), false);
  }
}

export const qwenXml = functionTags('qwen-xml', '<tool_call>', '</tool_call>');
export const seedXml = functionTags('seed-xml', '<seed:tool_call>', '</seed:tool_call>');
