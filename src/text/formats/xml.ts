// Calls in tags: Qwen3-Coder, Qwen3.5 and Seed-OSS name function and parameter in the tag, GLM 4.5 and later has tags
// for keys and values. Values have no quotes; a call is passed on when it is complete.

import { type Expression, optional, sequence, text } from '../../grammar/expression.ts';
import type { Tool } from './answer-part.ts';
import type { AnswerWriter } from './answer-writer.ts';
import { mark, oneOf, triggered } from './call-grammar.ts';
import type { FormatName, ToolFormat } from './format.ts';
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
      const values = yield* taggedValues(tape, writer, tool, functionParameters);
      if (values === undefined) return false;
      writer.whole(tool, objectText(values));
      yield* tape.tookBehindSpace(close);
      return true;
    },
  };
}

interface ParameterTags {
  readonly open: string;
  readonly nameEnd: string;
  /** Absent where the value follows the name, on lines of its own. */
  readonly valueOpen?: string;
  readonly valueEnd: string;
  /** Ends all parameters. */
  readonly close: string;
}

const functionParameters: ParameterTags = {
  open: '<parameter=',
  nameEnd: '>',
  valueEnd: '</parameter>',
  close: '</function>',
};

function* taggedValues(
  tape: Tape,
  writer: AnswerWriter,
  tool: Tool,
  { open, nameEnd, valueOpen, valueEnd, close }: ParameterTags,
): Reading<ReadonlyMap<string, string> | undefined> {
  const parameters = parametersByName(tool);
  const values = new Map<string, string>();
  for (;;) {
    yield* tape.skipSpace();
    if (yield* tape.took(close)) return values;
    if (!(yield* tape.took(open))) return undefined;
    const name = yield* parameterName(tape, parameters, nameEnd);
    if (valueOpen !== undefined && !(yield* tape.tookBehindSpace(valueOpen))) return undefined;
    const value = yield* tape.until(valueEnd);
    if (name === undefined || value === undefined) return undefined;
    const bare = valueOpen === undefined ? value.replace(/^\n/, '').replace(/\n$/, '') : value;
    values.set(name, asJson(bare, parameters.get(name)));
    writer.pendArguments(objectStart(values), false);
  }
}

export const qwenXml = functionTags('qwen-xml', '<tool_call>', '</tool_call>');
export const seedXml = functionTags('seed-xml', '<seed:tool_call>', '</seed:tool_call>');

const glmMarks = {
  open: '<tool_call>',
  close: '</tool_call>',
  key: ['<arg_key>', '</arg_key>'],
  value: ['<arg_value>', '</arg_value>'],
} as const;

const glmParameters: ParameterTags = {
  open: glmMarks.key[0],
  nameEnd: glmMarks.key[1],
  valueOpen: glmMarks.value[0],
  valueEnd: glmMarks.value[1],
  close: glmMarks.close,
};

// From version 4.7 on, nothing stands between the tags.
const line = optional(text('\n'));

function glmCall(tool: Tool): Expression {
  return sequence(
    text(tool.name),
    line,
    parameterRow(tool, (parameter) =>
      sequence(
        mark(glmMarks.key[0]),
        text(parameter.name),
        mark(glmMarks.key[1]),
        line,
        mark(glmMarks.value[0]),
        bareValue(parameter, tool, glmMarks.value[1]),
        mark(glmMarks.value[1]),
        line,
      ),
    ),
  );
}

export const glm: ToolFormat = {
  name: 'glm',
  marks: [glmMarks.open, glmMarks.close, ...glmMarks.key, ...glmMarks.value],
  grammar: (tools, mode, parallel) =>
    triggered(mode, parallel, {
      triggers: [glmMarks.open],
      separator: line,
      block: sequence(mark(glmMarks.open), oneOf(tools, glmCall), mark(glmMarks.close)),
    }),
  *read(tape, writer) {
    if (!(yield* tape.took(glmMarks.open))) return false;
    yield* tape.skipSpace();
    const tool = yield* writer.named(tape);
    if (tool === undefined) return false;
    writer.pend(tool);
    const values = yield* taggedValues(tape, writer, tool, glmParameters);
    if (values === undefined) return false;
    writer.whole(tool, objectText(values));
    return true;
  },
};
