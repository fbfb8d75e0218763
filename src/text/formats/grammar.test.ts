import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { readPieces, tools } from '../../../test/support/answer-formats.ts';
import { allows, derive } from '../../../test/support/expression-answers.ts';
import { rulesOf } from '../../grammar/assemble.ts';
import { checkBytes } from '../../grammar/check-text.ts';
import { compileRules } from '../../grammar/compile.ts';
import type { Expression } from '../../grammar/expression.ts';
import { GrammarError } from '../../grammar/grammar-error.ts';
import type { AnswerFormat, CallMode } from './format.ts';
import { functiongemma, gemma } from './gemma.ts';
import { harmony } from './harmony.ts';
import { granite, hermes, llamaJson, phi } from './hermes.ts';
import { markedAnswer } from './marked-answer.ts';
import { mistral, mistralList } from './mistral.ts';
import { lfm2, pythonic, toolCode } from './pythonic.ts';
import { graniteThink, think } from './reasoning.ts';
import { deepseekV3, deepseekV31, kimiK2 } from './sectioned.ts';
import { glm, qwenXml, seedXml } from './xml.ts';

const formats: readonly AnswerFormat[] = [
  harmony,
  ...[hermes, granite, phi, llamaJson, mistral, mistralList, deepseekV3, deepseekV31, kimiK2, pythonic].map(
    plain,
  ),
  ...[lfm2, toolCode, qwenXml, seedXml, glm, gemma, functiongemma].map(plain),
];

function plain(format: Parameters<typeof markedAnswer>[0]): AnswerFormat {
  return markedAnswer(format, undefined);
}

/** Answers that the grammar allows, with values in place of schemas and free text. */
function answersOf(expression: Expression): fc.Arbitrary<string> {
  return fc.infiniteStream(fc.nat()).map((choices) => {
    const pick = (count: number) => (choices.next().value ?? 0) % count;
    return derive(expression, pick)
      .replaceAll('$object', '{}')
      .replaceAll('$integer', '2')
      .replaceAll('$boolean', 'true')
      .replaceAll('$string', '"Rome"')
      .replaceAll('$array', '[1]')
      .replaceAll('~', 'Rome');
  });
}

describe.each(formats.map((format) => [format.name, format] as const))('the grammar of %s', (_, format) => {
  const grammar = (mode: CallMode, parallel: boolean, opened = false) =>
    format.grammar({ tools, mode, parallel, opened });

  it.each(['auto', 'required'] as const)('names every tool where calls are %s', (mode) => {
    const text = JSON.stringify(grammar(mode, true));
    expect(text).toMatch(/get_weather\b/);
    expect(text).toMatch(/get\b(?!_weather)/);
  });

  it('allows nothing but calls where they are required, and the reader finds them', () => {
    let most = 0;
    fc.assert(
      fc.property(answersOf(grammar('required', true)), (answer) => {
        const parts = readPieces(format, [{ text: answer, control: false }]).filter(
          ({ kind }) => kind !== 'reasoning',
        );
        const calls = parts.filter(({ kind }) => kind === 'call');
        expect(calls.length).toBeGreaterThan(0);
        expect(parts.every(({ kind }) => kind === 'call' || kind === 'arguments')).toBe(true);
        for (const part of parts) if (part.kind === 'arguments') JSON.parse(part.text);
        most = Math.max(most, calls.length);
      }),
      { numRuns: 200 },
    );
    expect(most).toBe(format === harmony ? 1 : 3);
  });

  it.each(['auto', 'required'] as const)('allows one call where they are not parallel but %s', (mode) => {
    fc.assert(
      fc.property(answersOf(grammar(mode, false)), (answer) => {
        const parts = readPieces(format, [{ text: answer, control: false }]);
        expect(parts.filter(({ kind }) => kind === 'call').length).toBeLessThan(2);
      }),
    );
  });

  it('allows an answer without calls where they are not required', () => {
    const leads = format.name === 'pythonic' || format.name === 'llama-json';
    const text = leads ? 'A~' : '~';
    const answer = format === harmony ? `<|channel|>final<|message|>${text}` : text;
    expect(allows(grammar('auto', true), answer)).toBe(true);
    expect(allows(grammar('required', true), answer)).toBe(false);
  });
});

describe('what a call looks like', () => {
  it.each([
    [hermes, '<tool_call>\n{"name": "get_weather", "arguments": $object}\n</tool_call>'],
    [granite, '<|tool_call|>[{"name": "get_weather", "arguments": $object}]'],
    [phi, '<|tool_call|>[{"name": "get_weather", "arguments": $object}]<|/tool_call|>'],
    [llamaJson, '{"name": "get_weather", "parameters": $object}'],
    [mistral, '[TOOL_CALLS]get_weather[ARGS]$object'],
    [mistralList, '[TOOL_CALLS] [{"name": "get_weather", "arguments": $object}]'],
    [
      deepseekV3,
      '<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>get_weather\n```json\n$object\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>',
    ],
    [
      deepseekV31,
      '<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>get_weather<｜tool▁sep｜>$object<｜tool▁call▁end｜><｜tool▁calls▁end｜>',
    ],
    [
      kimiK2,
      '<|tool_calls_section_begin|><|tool_call_begin|>functions.get_weather:0<|tool_call_argument_begin|>$object<|tool_call_end|><|tool_calls_section_end|>',
    ],
    [pythonic, '[get_weather(city=$string, exact=True)]'],
    [lfm2, '<|tool_call_start|>[get_weather(city=$string, days=$integer)]<|tool_call_end|>'],
    [toolCode, '```tool_code\nget_weather(city=$string)\n```'],
    [
      qwenXml,
      '<tool_call>\n<function=get_weather>\n<parameter=city>\n$string\n</parameter>\n<parameter=days>\n$integer\n</parameter>\n</function>\n</tool_call>',
    ],
    [glm, '<tool_call>get_weather\n<arg_key>city</arg_key>\n<arg_value>$string</arg_value>\n</tool_call>'],
    [gemma, '<|tool_call>call:get_weather$object<tool_call|>'],
    [functiongemma, '<start_function_call>call:get$object<end_function_call>'],
  ] as const)('is as the template writes it', (format, call) => {
    const options = { tools, parallel: false, opened: false };
    expect(allows(plain(format).grammar({ ...options, mode: 'required' }), call)).toBe(true);
    const text = plain(format).grammar({ ...options, mode: 'auto' });
    expect(allows(text, call) || allows(text, `~${call}~`)).toBe(true);
  });

  it.each([
    ['[get_weather(city=$string, days=$integer, exact=False, hours=$array)]', true],
    ['[get_weather(city=$string, hours=$array)]', true],
    ['[get()]', true],
    ['[get_weather()]', false],
    ['[get_weather(days=$integer)]', false],
    ['[get_weather(days=$integer, city=$string)]', false],
    ['[get_weather(city=$string, other=$string)]', false],
    ['[get(city=$string)]', false],
  ])('has what is required, in the order of the schema, and nothing unknown: %s', (call, allowed) => {
    const grammar = plain(pythonic).grammar({ tools, mode: 'required', parallel: false, opened: false });
    expect(allows(grammar, call)).toBe(allowed);
  });

  it.each([
    [llamaJson, '{~', false],
    [pythonic, '[~', false],
    [llamaJson, '[~', true],
    [pythonic, '{~', true],
    [llamaJson, ' ~', false],
    [llamaJson, '', true],
  ])('needs no mark where no other answer begins as it does', (format, answer, allowed) => {
    const grammar = plain(format).grammar({ tools, mode: 'auto', parallel: true, opened: false });
    expect(allows(grammar, answer)).toBe(allowed);
  });

  it('is one of those that a string may be', () => {
    const unit = { type: 'string', enum: ['C', 'F'] };
    const given = [{ name: 'f', strict: true, parameters: { properties: { unit } } }];
    const options = { tools: given, mode: 'required', parallel: false, opened: false } as const;
    const { rules } = rulesOf(plain(gemma).grammar(options), () => undefined);
    const gemmaCall = (of: string) => `<|tool_call>call:f{unit:<|"|>${of}<|"|>}<tool_call|>`;
    expect(checkBytes(compileRules(rules), gemmaCall('C')).accepted).toBe(true);
    expect(checkBytes(compileRules(rules), gemmaCall('K')).accepted).toBe(false);
  });

  it.each([
    ['anyOf', { anyOf: [{ required: ['a'] }, { required: ['b'] }] }],
    ['minProperties', { minProperties: 1 }],
    ['required', { required: ['other'] }],
    ['$ref', { $ref: '#/$defs/none' }],
  ])(
    'is refused where %s of all arguments together cannot be kept, if that was promised',
    (keyword, more) => {
      const parameters = { type: 'object', properties: { a: {}, b: {} }, ...more };
      const grammar = (strict: boolean) =>
        plain(qwenXml).grammar({
          tools: [{ name: 'f', strict, parameters }],
          mode: 'auto',
          parallel: false,
          opened: false,
        });
      expect(() => grammar(true)).toThrow(GrammarError);
      expect(() => grammar(true)).toThrow(`'${keyword}'`);
      expect(() => grammar(false)).not.toThrow();
    },
  );

  it.each([
    [false, '[TOOL_CALLS]get[ARGS]$object', true],
    [false, '<think>~</think>\n\n[TOOL_CALLS]get[ARGS]$object', true],
    [true, '~</think>[TOOL_CALLS]get[ARGS]$object', true],
    [true, '[TOOL_CALLS]get[ARGS]$object', false],
  ])(
    'may be behind reasoning; where the prompt has opened it (%s), it must: %j',
    (opened, answer, allowed) => {
      const grammar = markedAnswer(mistral, think).grammar({
        tools,
        mode: 'required',
        parallel: false,
        opened,
      });
      expect(allows(grammar, answer)).toBe(allowed);
    },
  );

  it('in harmony follows any reasoning, and is the last message', () => {
    const grammar = harmony.grammar({ tools, mode: 'required', parallel: true, opened: false });
    const call = '<|channel|>commentary to=functions.get_weather <|constrain|>json<|message|>$object';
    const analysis = '<|channel|>analysis<|message|>~<|end|><|start|>assistant';
    expect(allows(grammar, call)).toBe(true);
    expect(allows(grammar, `${analysis}${analysis}${call}`)).toBe(true);
    expect(allows(grammar, `${call}${call}`)).toBe(false);
  });
});

describe('an answer that is constrained as a whole', () => {
  const body: Expression = { kind: 'schema', schema: { type: 'object' } };

  it('is alone where the model does not reason', () => {
    expect(plain(hermes).wrapped(body, false)).toEqual(body);
  });

  it.each([
    [think, false, '$object', true],
    [think, false, '<think>~</think>\n\n$object', true],
    [think, false, '~', false],
    [think, true, '~</think>$object', true],
    [think, true, '$object', false],
    [graniteThink, true, '~</think><response>$object</response>', true],
  ])('may follow reasoning', (reasoning, opened, answer, allowed) => {
    expect(allows(markedAnswer(hermes, reasoning).wrapped(body, opened), answer)).toBe(allowed);
  });

  it('is the final message in harmony', () => {
    const final = '<|channel|>final<|message|>$object';
    const rest = '~<|end|><|start|>assistant';
    expect(allows(harmony.wrapped(body, false), final)).toBe(true);
    expect(allows(harmony.wrapped(body, false), `<|channel|>analysis<|message|>${rest}${final}`)).toBe(true);
    expect(allows(harmony.wrapped(body, true), `${rest}${final}`)).toBe(true);
  });
});
