// Calls as JSON: after a mark, one object (Hermes, Qwen and many others) or a list (Granite, Phi), or at the
// beginning of an answer (Llama 3). Each reader takes objects and lists, since models mix them up; a grammar follows
// the model's training.

import { type Expression, optional, sequence, text } from '../../grammar/expression.ts';
import type { Tool } from './answer-part.ts';
import {
  jsonCallGrammar,
  jsonListGrammar,
  leading,
  mark,
  oneOf,
  several,
  triggered,
} from './call-grammar.ts';
import type { FormatName, ToolFormat } from './format.ts';
import { jsonCall, jsonCalls } from './json-call.ts';

interface JsonBlock {
  readonly name: FormatName;
  readonly triggers: readonly string[];
  /** Optional when reading: the JSON shows where a call ends. */
  readonly close?: string | undefined;
  readonly block: (tools: readonly Tool[], parallel: boolean) => Expression;
  readonly separator?: Expression | undefined;
}

function jsonBlocks({ name, triggers, close, block, separator }: JsonBlock): ToolFormat {
  return {
    name,
    marks: close === undefined ? triggers : [...triggers, close],
    grammar: (tools, mode, parallel) =>
      triggered(mode, parallel, { triggers, block: block(tools, parallel), separator }),
    *read(tape, writer) {
      if (!(yield* tape.tookAny(triggers))) return false;
      yield* tape.skipSpace();
      if (!(yield* jsonCalls(tape, writer))) return false;
      if (close !== undefined) yield* tape.tookBehindSpace(close);
      return true;
    },
  };
}

export const hermes = jsonBlocks({
  name: 'hermes',
  triggers: ['<tool_call>'],
  close: '</tool_call>',
  separator: text('\n'),
  block: (tools) =>
    sequence(
      mark('<tool_call>'),
      text('\n'),
      oneOf(tools, (tool) => jsonCallGrammar(tool, 'arguments')),
      text('\n'),
      mark('</tool_call>'),
    ),
});

/** Granite 3. Version 3.1 spells the mark as text. */
export const granite = jsonBlocks({
  name: 'granite',
  triggers: ['<|tool_call|>', '<tool_call>'],
  block: (tools, parallel) => sequence(mark('<|tool_call|>'), jsonListGrammar(tools, parallel)),
});

/** Phi-4-mini. Some of its templates have the word `functools` instead of the mark. */
export const phi = jsonBlocks({
  name: 'phi',
  triggers: ['<|tool_call|>', 'functools'],
  close: '<|/tool_call|>',
  block: (tools, parallel) =>
    sequence(mark('<|tool_call|>'), jsonListGrammar(tools, parallel), mark('<|/tool_call|>')),
});

// Llama 3's mark, then Llama 4's.
const pythonTag = '<|python_tag|>';
const pythonStart = '<|python_start|>';
const pythonEnd = '<|python_end|>';

export const llamaJson: ToolFormat = {
  name: 'llama-json',
  marks: [pythonTag, pythonStart, pythonEnd],
  grammar(tools, mode, parallel) {
    const call = oneOf(tools, (tool) => jsonCallGrammar(tool, 'parameters'));
    const calls = sequence(optional(mark(pythonTag)), several(call, text('; '), parallel));
    return leading(mode, calls, '{', [pythonTag, pythonStart]);
  },
  *read(tape, writer, fresh) {
    const tagged = yield* tape.tookAny([pythonTag, pythonStart]);
    if (!tagged && !fresh) return false;
    if (tagged) yield* tape.skipSpace();
    if (!(yield* jsonCall(tape, writer, tagged))) return false;
    for (;;) {
      tape.begin();
      if (tagged && (yield* tape.tookBehindSpace(pythonEnd))) return true;
      if (!(yield* tape.tookBehindSpace(';'))) return true;
      yield* tape.skipSpace();
      if (yield* jsonCall(tape, writer)) continue;
      writer.spill(tape);
      return true;
    }
  },
};
