// Calls in Python syntax, in a list: Llama 3.2 and 4 at the beginning of an answer, LFM2 between marks, Gemma 3 in a
// code block. Emitted when the list is complete.

import { choice, type Expression, optional, sequence, text } from '../../grammar/expression.ts';
import type { Tool } from './answer-part.ts';
import type { AnswerWriter } from './answer-writer.ts';
import { leading, mark, oneOf, schema, several, triggered } from './call-grammar.ts';
import type { ToolFormat } from './format.ts';
import { jsonCalls } from './json-call.ts';
import { listed, literal, python } from './literal.ts';
import { objectStart, objectText, type Parameter, parameterList, parametersOf } from './parameters.ts';
import type { Reading, Tape } from './tape.ts';

interface PythonCall {
  readonly tool: Tool;
  readonly json: string;
}

function value({ schema: of }: Parameter, tool: Tool): Expression {
  const isBoolean = of.type === 'boolean' && Object.keys(of).every((key) => plainKeys.includes(key));
  return isBoolean ? choice(text('True'), text('False')) : schema(of, tool);
}

/** With these alone a boolean may be true or false. */
const plainKeys = ['type', 'title', 'description', 'default', '$defs', 'definitions'];

function spell(tool: Tool): Expression {
  const values = parameterList(tool, text(', '), (parameter) =>
    sequence(text(`${parameter.name}=`), value(parameter, tool)),
  );
  return sequence(text(`${tool.name}(`), values, text(')'));
}

function listGrammar(tools: readonly Tool[], parallel: boolean): Expression {
  return sequence(text('['), several(oneOf(tools, spell), text(', '), parallel), text(']'));
}

function* readCall(tape: Tape, writer: AnswerWriter): Reading<PythonCall | undefined> {
  const tool = yield* writer.named(tape);
  if (tool === undefined || !(yield* tape.took('('))) return undefined;
  writer.pend(tool);
  const values = new Map<string, string>();
  const given = yield* listed(tape, ')', function* () {
    const argument = yield* readArgument(tape, tool);
    if (argument !== undefined) writer.pendArguments(objectStart(values.set(...argument)), false);
    return argument;
  });
  if (given === undefined) return undefined;
  const json = objectText(values);
  writer.pendArguments(json, true);
  return { tool, json };
}

function* readArgument(tape: Tape, tool: Tool): Reading<[string, string] | undefined> {
  const name = yield* argumentName(tape, tool);
  if (name === undefined) return undefined;
  const json = yield* literal(tape, python);
  return json === undefined ? undefined : [name, json];
}

/** Takes the name and `=`. A schema's names need not be valid in Python. */
function* argumentName(tape: Tape, tool: Tool): Reading<string | undefined> {
  const known = parametersOf(tool)
    .map(({ name }) => name)
    .sort((a, b) => b.length - a.length);
  for (const name of known) if (yield* tape.took(...(name === '' ? [] : [name]), '=')) return name;
  let name = '';
  while (/^\w$/.test((yield* tape.peek()) ?? '')) name += tape.take();
  return name !== '' && (yield* tape.tookBehindSpace('=')) ? name : undefined;
}

function* readList(tape: Tape, writer: AnswerWriter): Reading<PythonCall[] | undefined> {
  if (!(yield* tape.took('['))) return undefined;
  return yield* listed(tape, ']', () => readCall(tape, writer));
}

function write(calls: readonly PythonCall[] | undefined, writer: AnswerWriter): boolean {
  if (calls === undefined || calls.length === 0) return false;
  for (const { tool, json } of calls) writer.whole(tool, json);
  return true;
}

const pythonStart = '<|python_start|>';
const pythonEnd = '<|python_end|>';

export const pythonic: ToolFormat = {
  name: 'pythonic',
  marks: [pythonStart, pythonEnd],
  grammar(tools, mode, parallel) {
    const calls = listGrammar(tools, parallel);
    const marked = sequence(optional(mark(pythonStart)), calls, optional(mark(pythonEnd)));
    return leading(mode, marked, '[', [pythonStart]);
  },
  *read(tape, writer, fresh) {
    const marked = yield* tape.took(pythonStart);
    if (!marked && !fresh) return false;
    if (!write(yield* readList(tape, writer), writer)) return false;
    yield* tape.tookBehindSpace(pythonEnd);
    return true;
  },
};

const lfmStart = '<|tool_call_start|>';
const lfmEnd = '<|tool_call_end|>';

export const lfm2: ToolFormat = {
  name: 'lfm2',
  marks: [lfmStart, lfmEnd],
  grammar: (tools, mode, parallel) =>
    triggered(mode, parallel, {
      triggers: [lfmStart],
      block: sequence(mark(lfmStart), listGrammar(tools, parallel), mark(lfmEnd)),
    }),
  *read(tape, writer) {
    if (!(yield* tape.took(lfmStart))) return false;
    yield* tape.skipSpace();
    // Some of its templates render earlier calls as JSON.
    const json = yield* tape.at('[{');
    const read = json ? yield* jsonCalls(tape, writer) : write(yield* readList(tape, writer), writer);
    if (!read) return false;
    yield* tape.tookBehindSpace(lfmEnd);
    return true;
  },
};

const fence = '```tool_code';

export const toolCode: ToolFormat = {
  name: 'tool-code',
  marks: [fence],
  grammar: (tools, mode, parallel) =>
    triggered(mode, parallel, {
      triggers: [fence],
      block: sequence(
        mark(fence),
        text('\n'),
        several(oneOf(tools, spell), text('\n'), parallel),
        text('\n```'),
      ),
    }),
  *read(tape, writer) {
    if (!(yield* tape.took(fence))) return false;
    yield* tape.skipSpace();
    const calls = (yield* tape.at('[')) ? yield* readList(tape, writer) : yield* readLines(tape, writer);
    if (calls === undefined || !(yield* tape.tookBehindSpace('```'))) return false;
    return write(calls, writer);
  },
};

function* readLines(tape: Tape, writer: AnswerWriter): Reading<PythonCall[] | undefined> {
  const calls: PythonCall[] = [];
  do {
    const call = yield* readCall(tape, writer);
    if (call === undefined) return undefined;
    calls.push(call);
    yield* tape.skipSpace();
  } while (!(yield* tape.at('```')) && (yield* tape.peek()) !== undefined);
  return calls;
}
