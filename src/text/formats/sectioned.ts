// Calls between marks in a section between marks: DeepSeek and Kimi K2. A mark separates name and arguments.

import { type Expression, sequence, text } from '../../grammar/expression.ts';
import type { Tool } from './answer-part.ts';
import type { AnswerWriter } from './answer-writer.ts';
import { mark, objectSchema, oneOf, several, triggered } from './call-grammar.ts';
import type { FormatName, ToolFormat } from './format.ts';
import { jsonArguments } from './json-call.ts';
import type { Reading, Tape } from './tape.ts';

interface Sectioned {
  readonly name: FormatName;
  readonly section: readonly [begin: string, end: string];
  readonly call: readonly [begin: string, end: string];
  readonly separator: string;
  readonly between: string;
  readonly spell: (tool: Tool) => Expression;
  readonly head: (tape: Tape, writer: AnswerWriter) => Reading<Tool | undefined>;
  /** May follow the arguments. */
  readonly fence?: string | undefined;
}

function sectioned({ name, section, call, separator, between, spell, head, fence }: Sectioned): ToolFormat {
  function* readCall(tape: Tape, writer: AnswerWriter): Reading<boolean> {
    const tool = yield* head(tape, writer);
    if (tool === undefined) return false;
    writer.pend(tool);
    yield* tape.skipSpace();
    if (!(yield* jsonArguments(tape, writer, tool))) return false;
    if (fence !== undefined) yield* tape.tookBehindSpace(fence);
    yield* tape.tookBehindSpace(call[1]);
    return true;
  }
  return {
    name,
    marks: [...section, ...call, separator],
    grammar(tools, mode, parallel) {
      const one = sequence(mark(call[0]), oneOf(tools, spell), mark(call[1]));
      const block = sequence(mark(section[0]), several(one, text(between), parallel), mark(section[1]));
      return triggered(mode, parallel, { triggers: [section[0], call[0]], block });
    },
    *read(tape, writer) {
      if (yield* tape.took(section[0])) yield* tape.skipSpace();
      if (!(yield* tape.took(call[0]))) return false;
      if (!(yield* readCall(tape, writer))) return false;
      for (;;) {
        tape.begin();
        if (yield* tape.tookBehindSpace(section[1])) return true;
        if (!(yield* tape.tookBehindSpace(call[0]))) return true;
        if (yield* readCall(tape, writer)) continue;
        writer.spill(tape);
        return true;
      }
    },
  };
}

const deepseekMarks = {
  section: ['<｜tool▁calls▁begin｜>', '<｜tool▁calls▁end｜>'],
  call: ['<｜tool▁call▁begin｜>', '<｜tool▁call▁end｜>'],
  separator: '<｜tool▁sep｜>',
  fence: '```',
  head: deepseekHead,
} as const;

/** Version 3 has a kind before the name and a code fence around the arguments; 3.1 neither. */
function* deepseekHead(tape: Tape, writer: AnswerWriter): Reading<Tool | undefined> {
  const fenced = yield* tape.took('function', deepseekMarks.separator);
  const tool = yield* writer.named(tape);
  if (fenced) return (yield* tape.tookBehindSpace('```json')) ? tool : undefined;
  return (yield* tape.took(deepseekMarks.separator)) ? tool : undefined;
}

export const deepseekV3 = sectioned({
  ...deepseekMarks,
  name: 'deepseek-v3',
  between: '\n',
  spell: (tool) =>
    sequence(
      text('function'),
      mark(deepseekMarks.separator),
      text(`${tool.name}\n\`\`\`json\n`),
      objectSchema(tool),
      text('\n```'),
    ),
});

export const deepseekV31 = sectioned({
  ...deepseekMarks,
  name: 'deepseek-v3.1',
  between: '',
  spell: (tool) => sequence(text(tool.name), mark(deepseekMarks.separator), objectSchema(tool)),
});

const kimiSeparator = '<|tool_call_argument_begin|>';

/** A call's name is its id: `functions.NAME:INDEX`. */
export const kimiK2 = sectioned({
  name: 'kimi-k2',
  section: ['<|tool_calls_section_begin|>', '<|tool_calls_section_end|>'],
  call: ['<|tool_call_begin|>', '<|tool_call_end|>'],
  separator: kimiSeparator,
  between: '',
  spell: (tool) =>
    sequence(
      text(`functions.${tool.name}:`),
      { kind: 'repeat', part: { kind: 'characters', ranges: [[0x30, 0x39]] }, least: 1, most: 3 },
      mark(kimiSeparator),
      objectSchema(tool),
    ),
  *head(tape, writer) {
    yield* tape.skipSpace();
    const id = yield* tape.until(kimiSeparator);
    // A name may itself end like an index.
    const [, name] = /^(?:functions\.)?(.+):\d+\s*$/.exec(id ?? '') ?? [];
    return name === undefined ? undefined : writer.find(name);
  },
});
