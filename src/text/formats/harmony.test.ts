import { expect, it } from 'vitest';
import { expectCut, readText, tokenized } from '../../../test/support/answer-formats.ts';
import { harmony } from './harmony.ts';

const analysis = '<|channel|>analysis<|message|>Hm. <|end|><|start|>assistant';
const header = '<|channel|>commentary to=functions.get_weather <|constrain|>json<|message|>';
const json = '{"city": "Paris"}';

it.each([
  [`${analysis}<|channel|>final<|message|>Yes. <|return|>`, '(Hm. )', 'Yes. '],
  ['<|channel|>final<|message|>Yes', 'Yes'],
  [`${analysis}${header}${json}<|call|>`, '(Hm. )', '0:get_weather', json],
  [`${header}${json}\n`, '0:get_weather', json, '\n'],
  [
    ` to=functions.get_weather<|channel|>commentary <|constrain|>json<|message|>${json}<|call|>`,
    '0:get_weather',
    json,
  ],
  [
    `${analysis} to=functions.get_weather<|channel|>commentary json<|message|>${json}<|call|><|start|>assistant<|channel|>commentary to=functions.get<|message|>{}<|call|>`,
    '(Hm. )',
    '0:get_weather',
    json,
    '1:get',
    '{}',
  ],
  [
    `<|channel|>commentary<|message|>I look.<|end|><|start|>assistant${header}${json}<|call|>`,
    'I look.',
    '0:get_weather',
    json,
  ],
  ['<|channel|>analysis<|message|>Hm', '(Hm)'],
  ['Plain text', 'Plain text'],
  [`${header}{"city": "Pa`, '0:get_weather', '{"city": "Pa'],
])('reads %j', (answer, ...parts) => {
  expect(readText(harmony, answer)).toEqual(parts);
});

it.each([
  `${analysis}<|channel|>final<|message|>Yes. <|return|>`,
  `<|channel|>commentary<|message|>I look.<|end|><|start|>assistant${header}${json}<|call|>`,
  `${analysis} to=functions.get_weather<|channel|>commentary json<|message|>${json}<|call|>`,
])('shows neither headers nor half calls where it is cut off: %j', (answer) => {
  for (const controls of [[], harmony.marks]) {
    const pieces = tokenized(answer, controls);
    const isControl = (mark: string) => controls.includes(mark);
    for (let length = 0; length <= answer.length; length++) expectCut(harmony, pieces, length, { isControl });
  }
});

it.each([
  '<|channel|>commentary to=functions.other <|message|>{"a": 1}',
  '<|channel|>analysis to=python code<|message|>print(1)',
  `${header}nothing`,
  '<|channel|>final',
  '<|start|>assistant',
])('leaves %j as it is', (answer) => {
  expect(readText(harmony, answer)).toEqual([answer]);
});

it('calls nothing without tools', () => {
  expect(readText(harmony, `${header}${json}`, { tools: [] })).toEqual([`${header}${json}`]);
});

it('goes on where the prompt has begun the reasoning', () => {
  const promptEnd = '<|start|>assistant<|channel|>analysis<|message|>';
  const answer = 'Hm.<|end|><|start|>assistant<|channel|>final<|message|>Yes.';
  expect(harmony.opened(promptEnd)).toBe(true);
  expect(readText(harmony, answer, { promptEnd })).toEqual(['(Hm.)', 'Yes.']);
});
