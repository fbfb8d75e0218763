// Detects a model's format by the marks in its chat template, which renders earlier calls or instructs the model.

import type { AnswerFormat, FormatName, ToolFormat } from './format.ts';
import { functiongemma, gemma } from './gemma.ts';
import { harmony } from './harmony.ts';
import { granite, hermes, llamaJson, phi } from './hermes.ts';
import { markedAnswer } from './marked-answer.ts';
import { mistral, mistralList } from './mistral.ts';
import { lfm2, pythonic, toolCode } from './pythonic.ts';
import {
  bracketThink,
  gemmaThought,
  graniteThink,
  graniteThought,
  type ReasoningFormat,
  seedThink,
  think,
} from './reasoning.ts';
import { deepseekV3, deepseekV31, kimiK2 } from './sectioned.ts';
import { glm, qwenXml, seedXml } from './xml.ts';

export interface DetectedFormat {
  readonly format: AnswerFormat;
  /** Whether the template shows tools to the model. */
  readonly rendersTools: boolean;
  /** Whether the template shows how calls are written; otherwise the format is a default. */
  readonly mentionsCalls: boolean;
}

/** The first format whose marks all occur wins, so specific ones come first. */
const toolFormats: readonly (readonly [ToolFormat, ...marks: string[]])[] = [
  [gemma, '<|tool_call>', 'call:'],
  [functiongemma, '<start_function_call>'],
  [seedXml, '<seed:tool_call>'],
  [qwenXml, '<function=', '<parameter='],
  [glm, '<arg_key>'],
  [deepseekV3, '<｜tool▁calls▁begin｜>', '```json'],
  [deepseekV31, '<｜tool▁calls▁begin｜>'],
  [kimiK2, '<|tool_calls_section_begin|>'],
  [kimiK2, 'tool_declare<|im_middle|>'],
  [mistral, '[TOOL_CALLS]', '[ARGS]'],
  [mistralList, '[TOOL_CALLS]'],
  [lfm2, '<|tool_call_start|>'],
  [lfm2, '<|tool_list_start|>'],
  [phi, '<|/tool_call|>'],
  [phi, '<|/tool|>'],
  [phi, 'functools['],
  [granite, '<|tool_call|>'],
  [hermes, '<tool_call>'],
  [toolCode, '```tool_code'],
  [pythonic, 'func_name1('],
  [llamaJson, 'dictionary of argument name'],
  [llamaJson, '<|python_tag|>'],
  [pythonic, '<|python_start|>'],
];

const reasoningFormats: readonly (readonly [ReasoningFormat, ...marks: string[]])[] = [
  [gemmaThought, '<|channel>', 'thought'],
  [seedThink, '<seed:think>'],
  [bracketThink, '[THINK]'],
  [graniteThink, '<think>', '<response>'],
  [think, '<think>'],
  [think, '</think>'],
  [graniteThought, 'Here is my thought process:'],
];

function firstMentioned<T>(
  template: string,
  known: readonly (readonly [T, ...marks: string[]])[],
): T | undefined {
  return known.find(([, ...marks]) => marks.every((mark) => template.includes(mark)))?.[0];
}

export function detectFormat(template: string | undefined): DetectedFormat {
  const source = (template ?? '').replaceAll(/\{#[\s\S]*?#\}/g, '');
  const rendersTools = usesTools(source);
  if (source.includes('<|channel|>') && source.includes('<|message|>'))
    return { format: harmony, rendersTools, mentionsCalls: true };
  const calls = firstMentioned(source, toolFormats);
  const format = markedAnswer(calls ?? hermes, firstMentioned(source, reasoningFormats));
  return { format, rendersTools, mentionsCalls: calls !== undefined };
}

export const formatNames: readonly FormatName[] = [
  harmony.name,
  ...new Set(toolFormats.map(([{ name }]) => name)),
];

/** Reasoning still follows the template. */
export function chosenFormat(name: FormatName, template: string | undefined): DetectedFormat {
  const { rendersTools } = detectFormat(template);
  const calls = toolFormats.find(([one]) => one.name === name)?.[0];
  const format =
    calls === undefined ? harmony : markedAnswer(calls, firstMentioned(template ?? '', reasoningFormats));
  return { format, rendersTools, mentionsCalls: true };
}

/** Whether the template's code, not its text, uses the variable `tools`. */
function usesTools(source: string): boolean {
  const code = source.match(/\{[%{][\s\S]*?[%}]\}/g) ?? [];
  return code.some((block) => /(?<![.\w])tools\b/.test(block.replaceAll(/'[^']*'|"[^"]*"/g, "''")));
}
