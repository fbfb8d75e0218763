// GLM 4.5 and later: calls in tags, with tags for keys and for values. Values stand there without quotes; a call is
// passed on when it is complete.

import { type Expression, optional, sequence, text } from '../../grammar/expression.ts';
import type { AnswerWriter } from './answer-writer.ts';
import { mark, oneOf, triggered } from './call-grammar.ts';
import type { Tool } from './format.ts';
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

const glmMarks = {
  open: '<tool_call>',
  close: '</tool_call>',
  key: ['<arg_key>', '</arg_key>'],
  value: ['<arg_value>', '</arg_value>'],
} as const;

/** Up to the end of the call. */
function* glmValues(
  tape: Tape,
  writer: AnswerWriter,
  tool: Tool,
): Reading<ReadonlyMap<string, string> | undefined> {
  const parameters = parametersByName(tool);
  const values = new Map<string, string>();
  for (;;) {
    yield* tape.skipSpace();
    if (yield* tape.took(glmMarks.close)) return values;
    if (!(yield* tape.took(glmMarks.key[0]))) return undefined;
    const name = yield* parameterName(tape, parameters, glmMarks.key[1]);
    yield* tape.skipSpace();
    if (name === undefined || !(yield* tape.took(glmMarks.value[0]))) return undefined;
    const value = yield* tape.until(glmMarks.value[1]);
    if (value === undefined) return undefined;
    values.set(name, asJson(value, parameters.get(name)));
    writer.pendArguments(objectStart(values), false);
  }
}

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
    const values = yield* glmValues(tape, writer, tool);
    if (values === undefined) return false;
    writer.whole(tool, objectText(values));
    return true;
  },
};
