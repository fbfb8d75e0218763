import { describe, expect, it } from 'vitest';
import { itReads, readText, tools, weather } from '../../../test/support/answer-formats.ts';
import { functiongemma, gemma } from './gemma.ts';
import { markedAnswer } from './marked-answer.ts';
import { lfm2, pythonic, toolCode } from './pythonic.ts';
import { glm, qwenXml, seedXml } from './xml.ts';

const paris = ['0:get_weather', '{"city":"Paris","days":2}'];

describe('calls in Python', () => {
  itReads(
    pythonic,
    [
      ['[get_weather(city="Paris", days=2)]', ...paris],
      ["[get_weather(city='Paris', days=2), get()]", ...paris, '1:get', '{}'],
      ['<|python_start|>[get_weather(city="Paris", days=2)]<|python_end|>', ...paris],
      [
        `[get_weather(city="it's\\n\\"", exact=True, hours=[1, 2,], more={'a': None, "b": -1.5e3})]`,
        '0:get_weather',
        '{"city":"it\'s\\n\\"","exact":true,"hours":[1,2],"more":{"a":null,"b":-1.5e3}}',
      ],
      [`[get_weather(city="""a\n"b" \\u00e9\\q""")]`, '0:get_weather', '{"city":"a\\n\\"b\\" é\\\\q"}'],
      ['[get()] and text', '0:get', '{}', ' and text'],
    ],
    [
      '[]',
      '[other()]',
      '[get(1)]',
      '[get(a=b)]',
      '[get()',
      '[get(), other()]',
      '[get](https://example.org)',
      'So: [get()]',
      `[get(a=${'['.repeat(200)}`,
    ],
  );
});

describe('LFM2', () => {
  itReads(
    lfm2,
    [
      ['<|tool_call_start|>[get_weather(city="Paris", days=2)]<|tool_call_end|>Wait.', ...paris, 'Wait.'],
      ['<|tool_call_start|>[{"name": "get", "arguments": {}}]<|tool_call_end|>', '0:get', '{}'],
    ],
    ['<|tool_call_start|>[]<|tool_call_end|>', '[get()]'],
  );
});

describe('Gemma 3', () => {
  itReads(
    toolCode,
    [
      ['```tool_code\nget_weather(city="Paris", days=2)\n```', ...paris],
      [
        'Sure.\n```tool_code\nget_weather(city="Paris", days=2)\nget()\n```',
        'Sure.',
        ...paris,
        '1:get',
        '{}',
      ],
      ['```tool_code\n[get()]\n```', '0:get', '{}'],
    ],
    ['```tool_code\nget()', '```tool_code\nprint(1)\n```', '```python\nget()\n```'],
  );
});

const functionTags = (name: string, ...parameters: string[]) =>
  `<function=${name}>\n${parameters.map((parameter) => `<parameter=${parameter}\n</parameter>\n`).join('')}</function>`;

describe.each([
  [qwenXml, '<tool_call>', '</tool_call>'],
  [seedXml, '<seed:tool_call>', '</seed:tool_call>'],
] as const)('tags that name functions', (format, open, close) => {
  itReads(
    format,
    [
      [`${open}\n${functionTags('get_weather', 'city>\nParis', 'days>\n2')}\n${close}`, ...paris],
      [`${open}<function=get></function>${close}`, '0:get', '{}'],
      [
        `One.\n\n${open}\n${functionTags('get_weather', 'city>\n 12\n<b>', 'exact>\nTrue')}\n${close}\n${open}\n${functionTags('get', 'x>\n[1]', 'y>\nz')}\n${close}`,
        'One.',
        '0:get_weather',
        '{"city":" 12\\n<b>","exact":true}',
        '1:get',
        '{"x":[1],"y":"z"}',
      ],
    ],
    [
      `${open}\n<function=other>\n</function>\n${close}`,
      `${open}\n<function=get>\n<parameter=a>1`,
      `${open}\n<function=get>\n${close}`,
      functionTags('get'),
    ],
  );
});

describe('GLM', () => {
  const argument = (key: string, value: string) =>
    `<arg_key>${key}</arg_key>\n<arg_value>${value}</arg_value>\n`;
  itReads(
    glm,
    [
      [`<tool_call>get_weather\n${argument('city', 'Paris')}${argument('days', '2')}</tool_call>`, ...paris],
      ['<tool_call>get</tool_call>\n<tool_call>get\n</tool_call>', '0:get', '{}', '1:get', '{}'],
      [
        `<tool_call>get_weather<arg_key>city</arg_key><arg_value>"a"\n</arg_value></tool_call>`,
        '0:get_weather',
        '{"city":"\\"a\\"\\n"}',
      ],
    ],
    [
      '<tool_call>other\n</tool_call>',
      '<tool_call>getter</tool_call>',
      `<tool_call>get\n${argument('a', '1')}`,
      '<tool_call>get\n<arg_key>a</arg_key></tool_call>',
    ],
  );
});

describe.each([
  [gemma, '<|tool_call>', '<tool_call|>', '<|"|>'],
  [functiongemma, '<start_function_call>', '<end_function_call>', '<escape>'],
] as const)('Gemma 4', (format, open, close, quote) => {
  const string = (text: string) => `${quote}${text}${quote}`;
  itReads(
    format,
    [
      [`${open}call:get_weather{city:${string('Paris')},days:2}${close}`, ...paris],
      [`${open}call:get{}${close}${open}call:get{}${close}`, '0:get', '{}', '1:get', '{}'],
      [
        `Ok ${open}call:get_weather{city:${string('a{,}"b')},hours:[1,2],more:{x:${string('y')},${string('z')}:true}}${close}`,
        'Ok',
        '0:get_weather',
        '{"city":"a{,}\\"b","hours":[1,2],"more":{"x":"y","z":true}}',
      ],
      [`${open}call:get_weather{city:75001}${close}`, '0:get_weather', '{"city":"75001"}'],
    ],
    [
      `${open}call:other{}${close}`,
      `${open}get{}${close}`,
      `${open}call:get{a:${quote}b${close}`,
      `${open}call:get{a}${close}`,
    ],
  );
});

it('a parameter that refers to a definition means what is defined', () => {
  const given = {
    ...weather,
    parameters: {
      type: 'object',
      properties: { city: { $ref: '#/$defs/City' } },
      $defs: { City: { enum: ['1', '2'] } },
    },
  };
  const answer = '<tool_call><function=get_weather><parameter=city>1</parameter></function></tool_call>';
  expect(
    readText(markedAnswer(qwenXml, undefined), answer, { tools: [...tools.slice(0, 1), given] }),
  ).toEqual(['0:get_weather', '{"city":"1"}']);
});
