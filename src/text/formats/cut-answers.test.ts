// What is given of a call that was cut off: its name, and its arguments as far as they are known, in every format.

import { expect, it } from 'vitest';
import { readPieces, shown } from '../../../test/support/answer-formats.ts';
import type { AnswerFormat, ToolFormat } from './format.ts';
import { gemma } from './gemma.ts';
import { harmony } from './harmony.ts';
import { hermes, llamaJson } from './hermes.ts';
import { markedAnswer } from './marked-answer.ts';
import { mistral } from './mistral.ts';
import { lfm2, pythonic, toolCode } from './pythonic.ts';
import { think } from './reasoning.ts';
import { deepseekV31, kimiK2 } from './sectioned.ts';
import { glm, qwenXml } from './xml.ts';

const known = ['0:get_weather', '{'];

function read(format: AnswerFormat, text: string) {
  return shown(readPieces(format, [{ text, control: false }], {}, true));
}

const examples: readonly (readonly [ToolFormat, answer: string, ...parts: string[]])[] = [
  [hermes, 'Let me see.\n<tool_c', 'Let me see.'],
  [hermes, 'Let me see.\n<tool_call>\n{"name": "get_wea', 'Let me see.'],
  [hermes, '<tool_call>\n{"name": "get_weather"', ...known],
  [hermes, '<tool_call>\n{"name": "get_weather", "argu', ...known],
  [hermes, '<tool_call>\n{"name": "get_weather", "arguments": {"exact": tr', '0:get_weather', '{"exact": '],
  [hermes, '<tool_call>\n{"name": "get", "arguments": {}}\n</tool', '0:get', '{}'],
  [hermes, '<tool_call>{"arguments": {"a": 1}, "name": "get"', '0:get', '{"a": 1}'],
  [llamaJson, '{"name": "get_weather", "par', ...known],
  [llamaJson, '{"city": "Pa', '{"city": "Pa'],
  [mistral, '[TOOL_CALLS]get_weather[ARGS]', ...known],
  [deepseekV31, '<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>get_weather<｜tool▁sep｜>', ...known],
  [kimiK2, '<|tool_call_begin|>functions.get_weather:0<|tool_call_argument_begin|>', ...known],
  [pythonic, '[get(), get_weather(city="Paris", da', '0:get', '{}', '1:get_weather', '{"city":"Paris"'],
  [pythonic, '[get_weather(', ...known],
  [lfm2, '<|tool_call_start|>[get()', '0:get', '{}'],
  [
    toolCode,
    'Sure.\n```tool_code\nget_weather(city="Paris")\n``',
    'Sure.',
    '0:get_weather',
    '{"city":"Paris"}',
  ],
  [glm, '<tool_call>get_weather\n<arg_key>ci', ...known],
  [
    glm,
    '<tool_call>get_weather<arg_key>city</arg_key><arg_value>Paris</arg_value><arg_k',
    '0:get_weather',
    '{"city":"Paris"',
  ],
  [
    qwenXml,
    '<tool_call>\n<function=get_weather>\n<parameter=city>\nParis\n</parameter>\n<parameter=days>\n2',
    '0:get_weather',
    '{"city":"Paris"',
  ],
  [gemma, '<|tool_call>call:get_weather{city:<|"|>Paris<|"|>,day', '0:get_weather', '{"city":"Paris"'],
];

it.each(examples.map(([format, answer, ...parts]) => [format.name, answer, parts, format] as const))(
  '%s: %j',
  (_, answer, parts, format) => {
    expect(read(markedAnswer(format, undefined), answer)).toEqual(parts);
  },
);

it.each([
  ['<|channel|>commentary to=functions.get_weather <|constrain|>js'],
  ['<|channel|>commentary to=functions.get_weather <|constrain|>json<|message|>', ...known],
  ['<|channel|>final<|message|>Yes.<|re', 'Yes.'],
])('harmony: %j', (answer, ...parts) => {
  expect(read(harmony, answer)).toEqual(parts);
});

it('keeps blanks, and text that can be no mark', () => {
  const format = markedAnswer(hermes, think);
  expect(read(format, 'a < b \n')).toEqual(['a < b \n']);
  expect(read(format, '<think>Hm. ')).toEqual(['(Hm. )']);
  expect(read(format, '<think>Hm. </thin')).toEqual(['(Hm.)']);
});

it('tells whether the last call has all of its arguments', () => {
  const openBehind = (text: string): boolean => {
    const tools = [{ name: 'get', strict: false, parameters: {} }];
    const reader = markedAnswer(hermes, undefined).reader({
      tools,
      promptEnd: '',
      isControl: () => false,
      thinks: true,
    });
    reader.push(text, false);
    reader.end(true);
    return reader.hasOpenCall;
  };
  expect(openBehind('<tool_call>{"name": "get"')).toBe(true);
  expect(openBehind('<tool_call>{"name": "get", "arguments": {"a": 1')).toBe(true);
  expect(openBehind('<tool_call>{"name": "get", "arguments": {"a": 1}')).toBe(false);
  expect(openBehind('Yes. <tool_call>{"na')).toBe(false);
});
