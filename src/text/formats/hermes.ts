// Calls as JSON behind a mark: one object a mark (Hermes, Qwen and many others), or all of them in a list (Granite,
// Phi). Each reader takes both, since models mix them up; a grammar asks for what the model was trained on.

import { type Expression, optional, sequence, text } from '../../grammar/expression.ts';
import {
  jsonCallGrammar,
  jsonListGrammar,
  leading,
  mark,
  oneOf,
  several,
  triggered,
} from './call-grammar.ts';
import type { FormatName, Tool, ToolFormat } from './format.ts';
import { jsonCall, jsonCalls } from './json-call.ts';

interface JsonBlock {
  readonly name: FormatName;
  readonly triggers: readonly string[];
  /** Not demanded when reading: the JSON itself says where a call ends. */
  readonly close?: string | undefined;
  /** A block by itself, as the model's template writes it. */
  readonly block: (tools: readonly Tool[], parallel: boolean) => Expression;
  /** Between blocks, where each holds one call. */
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

/** Phi-4-mini. Some of its templates teach the word `functools` instead of the mark. */
export const phi = jsonBlocks({
  name: 'phi',
  triggers: ['<|tool_call|>', 'functools'],
  close: '<|/tool_call|>',
  block: (tools, parallel) =>
    sequence(mark('<|tool_call|>'), jsonListGrammar(tools, parallel), mark('<|/tool_call|>')),
});

// The first is of Llama 3, the others of Llama 4.
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
