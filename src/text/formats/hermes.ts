// Calls as JSON behind a mark: one object a mark (Hermes, Qwen and many others), or all of them in a list (Granite,
// Phi). Each reader takes both, since models mix them up; a grammar asks for what the model was trained on.

import { type Expression, sequence, text } from '../../grammar/expression.ts';
import { jsonCallGrammar, jsonListGrammar, mark, oneOf, triggered } from './call-grammar.ts';
import type { FormatName, Tool } from './format.ts';
import { jsonCalls } from './json-call.ts';
import type { ToolFormat } from './tool-format.ts';

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
