// Mistral: a list of JSON calls after a mark; since version 11 of its tokenizers, a mark for each call followed by
// name and arguments. The reader takes both.

import { sequence, text } from '../../grammar/expression.ts';
import type { AnswerWriter } from './answer-writer.ts';
import { gap, jsonListGrammar, mark, objectSchema, oneOf, triggered } from './call-grammar.ts';
import type { ToolFormat } from './format.ts';
import { jsonArguments, jsonCalls } from './json-call.ts';
import type { Reading, Tape } from './tape.ts';

const begin = '[TOOL_CALLS]';
const callId = '[CALL_ID]';
const argumentsMark = '[ARGS]';
const marks: readonly string[] = [begin, callId, argumentsMark];

export const mistralList: ToolFormat = {
  name: 'mistral-list',
  marks,
  grammar: (tools, mode, parallel) =>
    triggered(mode, parallel, {
      triggers: [begin],
      block: sequence(mark(begin), gap, jsonListGrammar(tools, parallel)),
    }),
  read,
};

export const mistral: ToolFormat = {
  name: 'mistral',
  marks,
  grammar: (tools, mode, parallel) =>
    triggered(mode, parallel, {
      triggers: [begin],
      separator: sequence(),
      block: oneOf(tools, (tool) =>
        sequence(mark(begin), text(tool.name), mark(argumentsMark), objectSchema(tool)),
      ),
    }),
  read,
};

function* read(tape: Tape, writer: AnswerWriter): Reading<boolean> {
  if (!(yield* tape.took(begin))) return false;
  yield* tape.skipSpace();
  const first = yield* tape.peek();
  if (first === '[' || first === '{') return yield* jsonCalls(tape, writer);
  const tool = yield* writer.named(tape);
  if (tool === undefined) return false;
  if (yield* tape.took(callId)) {
    if ((yield* tape.until(argumentsMark)) === undefined) return false;
  } else yield* tape.took(argumentsMark);
  writer.pend(tool);
  yield* tape.skipSpace();
  return yield* jsonArguments(tape, writer, tool);
}
