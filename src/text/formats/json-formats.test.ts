import { describe, expect, it } from 'vitest';
import { itReads, readPieces, readText, shown, tools } from '../../../test/support/answer-formats.ts';
import { granite, hermes, llamaJson, phi } from './hermes.ts';
import { markedAnswer } from './marked-answer.ts';
import { mistral, mistralList } from './mistral.ts';
import { deepseekV3, deepseekV31, kimiK2 } from './sectioned.ts';

const paris = '{"city": "Paris", "days": 2}';
const call = `{"name": "get_weather", "arguments": ${paris}}`;
const read = ['0:get_weather', paris];

describe('Hermes', () => {
  itReads(
    hermes,
    [
      [`<tool_call>\n${call}\n</tool_call>`, ...read],
      [`Let me see.\n<tool_call>${call}</tool_call>\n`, 'Let me see.', ...read],
      [
        `<tool_call>\n${call}\n</tool_call>\n<tool_call>\n{"name": "get", "arguments": {}}\n</tool_call>`,
        ...read,
        '1:get',
        '{}',
      ],
      [`<tool_call>{"arguments": ${paris}, "name": "get_weather"}</tool_call> Done.`, ...read, ' Done.'],
      [`<tool_call>{"id": 7, "name": "get_weather", "parameters": ${paris}}`, ...read],
      [`<tool_call>[${call}]</tool_call>`, ...read],
      // One that is none does not hide the next.
      [`<tool_call>\n<tool_call>\n${call}\n</tool_call>`, '<tool_call>\n', ...read],
    ],
    [
      'Nothing to call.\n',
      '<tool_call>',
      '<tool_call>\n</tool_call>',
      '<tool_call>{"name": "other", "arguments": {}}</tool_call>',
      '<tool_call>{"name": "get"}</tool_call>',
      '<tool_call>{"name": "get", "arguments": "{}"}</tool_call>',
      "<tool_call>{'name': 'get'}</tool_call>",
      '<tool_call>{"name": "get", "argu',
      '<tool_call>{"arguments": {"a": 1,}, "name": "get"}</tool_call>',
      'a < b, <tool and <tool_cal',
      '</tool_call>',
    ],
  );

  it('passes arguments on as they come', () => {
    const reader = markedAnswer(hermes, undefined).reader({
      tools,
      promptEnd: '',
      isControl: () => false,
      thinks: true,
    });
    expect(reader.push('<tool_call>{"name": "get_weather"', false)).toEqual([]);
    expect(shown(reader.push(', "arguments": {"city": "Pa', false))).toEqual([
      '0:get_weather',
      '{"city": "Pa',
    ]);
    expect(shown(reader.push('ris"}', false))).toEqual(['ris"}']);
    expect(reader.push('}\n</tool', false)).toEqual([]);
    expect(reader.push('_call>', false)).toEqual([]);
    expect(reader.end(false)).toEqual([]);
  });

  it('keeps what was passed on of arguments that are cut off', () => {
    const answer = '<tool_call>{"name": "get_weather", "arguments": {"city": "Par';
    expect(readText(markedAnswer(hermes, undefined), answer)).toEqual(['0:get_weather', '{"city": "Par']);
  });

  it('gives what breaks a call that has begun as text', () => {
    const answer = '<tool_call>{"name": "get", "arguments": {"a": oops}}</tool_call>';
    expect(readText(markedAnswer(hermes, undefined), answer)).toEqual([
      '0:get',
      '{"a": ',
      'oops}}</tool_call>',
    ]);
  });

  it('takes a control token for a mark, and text of its spelling for text', () => {
    const format = markedAnswer(hermes, undefined);
    const isControl = (mark: string) => mark.includes('tool_call');
    const mark = (text: string) => ({ text, control: true });
    const text = (of: string) => ({ text: of, control: false });
    const written = `<tool_call>${call}</tool_call>`;
    expect(shown(readPieces(format, [text(written)], { isControl }))).toEqual([written]);
    const marked = [mark('<tool_call>'), text(call), mark('</tool_call>'), mark('<|im_end|>')];
    expect(shown(readPieces(format, marked, { isControl }))).toEqual(read);
  });
});

describe('Granite', () => {
  itReads(
    granite,
    [
      [`<|tool_call|>[${call}, {"name": "get", "arguments": {}}]`, ...read, '1:get', '{}'],
      [
        `<|tool_call|> [${call}, {"name": "no", "arguments": {}}]`,
        ...read,
        ', {"name": "no", "arguments": {}}]',
      ],
      [`<tool_call>[${call}]`, ...read],
    ],
    ['<|tool_call|>[]', '<|tool_call|>[{"name": "no"}]', '<|tool_call|>none'],
  );
});

describe('Phi', () => {
  itReads(
    phi,
    [
      [`<|tool_call|>[${call}]<|/tool_call|>`, ...read],
      [`<|tool_call|>${call}<|/tool_call|>`, ...read],
      [`functools[${call}]`, ...read],
    ],
    ['functools is a module', 'import functools', '<|tool_call|><|/tool_call|>'],
  );
});

describe('Llama 3', () => {
  const llamaCall = `{"name": "get_weather", "parameters": ${paris}}`;
  itReads(
    llamaJson,
    [
      [llamaCall, ...read],
      [`<|python_tag|>${llamaCall}`, ...read],
      [`{"type": "function", "name": "get_weather", "parameters": ${paris}}`, ...read],
      [`${llamaCall}; {"name": "get", "parameters": {}}`, ...read, '1:get', '{}'],
      [`${llamaCall}; and so on`, ...read, '; and so on'],
      [`<|python_start|>${llamaCall}<|python_end|>`, ...read],
    ],
    [
      `So: ${llamaCall}`,
      '{"city": "Paris"}',
      '{"name": "Ada", "parameters": {}}',
      '<|python_tag|>print(1)',
      '{',
    ],
  );
});

describe('Mistral', () => {
  for (const format of [mistral, mistralList])
    itReads(
      format,
      [
        [`[TOOL_CALLS] [${call}]`, ...read],
        [`[TOOL_CALLS][{"name": "get_weather", "arguments": ${paris}, "id": "a1b2c3d4e"}]`, ...read],
        [`[TOOL_CALLS]get_weather[ARGS]${paris}`, ...read],
        [`[TOOL_CALLS]get_weather[CALL_ID]a1b2c3d4e[ARGS]${paris}`, ...read],
        [`Well.[TOOL_CALLS]get_weather${paris}[TOOL_CALLS]get[ARGS]{}`, 'Well.', ...read, '1:get', '{}'],
      ],
      ['[TOOL_CALLS]', '[TOOL_CALLS]other[ARGS]{}', '[TOOL_CALLS]get[ARGS]null', '[TOOL_CALLS]getter{}'],
    );
});

describe('DeepSeek', () => {
  const one = (inner: string) => `<｜tool▁call▁begin｜>${inner}<｜tool▁call▁end｜>`;
  const all = (...calls: string[]) => `<｜tool▁calls▁begin｜>${calls.join('\n')}<｜tool▁calls▁end｜>`;
  const fenced = (name: string, json: string) =>
    one(`function<｜tool▁sep｜>${name}\n\`\`\`json\n${json}\n\`\`\``);
  for (const format of [deepseekV3, deepseekV31])
    itReads(
      format,
      [
        [all(fenced('get_weather', paris)), ...read],
        [all(fenced('get_weather', paris), fenced('get', '{}')), ...read, '1:get', '{}'],
        [all(one(`get_weather<｜tool▁sep｜>${paris}`), one('get<｜tool▁sep｜>{}')), ...read, '1:get', '{}'],
        [`So.\n${one(`get_weather<｜tool▁sep｜>${paris}`)}`, 'So.', ...read],
        [
          all(one('get<｜tool▁sep｜>{}'), one('no<｜tool▁sep｜>{}')),
          '0:get',
          '{}',
          `\n${one('no<｜tool▁sep｜>{}')}<｜tool▁calls▁end｜>`,
        ],
      ],
      [all(fenced('other', '{}')), all(one('get<｜tool▁sep｜>nothing')), all(), all(one('get'))],
    );
});

describe('Kimi K2', () => {
  const one = (name: string, json: string) =>
    `<|tool_call_begin|>${name}<|tool_call_argument_begin|>${json}<|tool_call_end|>`;
  const all = (calls: string) => `<|tool_calls_section_begin|>${calls}<|tool_calls_section_end|>`;
  itReads(
    kimiK2,
    [[all(one('functions.get_weather:0', paris) + one('functions.get:1', '{}')), ...read, '1:get', '{}']],
    [all(one('functions.other:0', '{}')), all(one('functions.get_weather', '{}'))],
  );
});
