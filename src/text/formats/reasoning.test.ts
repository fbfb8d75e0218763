import { describe, expect, it } from 'vitest';
import { expectCut, readPieces, readText, shown, tokenized } from '../../../test/support/answer-formats.ts';
import { hermes, llamaJson } from './hermes.ts';
import { markedAnswer } from './marked-answer.ts';
import { bracketThink, gemmaThought, graniteThink, graniteThought, seedThink, think } from './reasoning.ts';

const format = markedAnswer(hermes, think);
const call = '<tool_call>\n{"name": "get", "arguments": {}}\n</tool_call>';

describe('reasoning', () => {
  it.each([
    ['<think>\nHm.\n</think>\n\nYes.', '(Hm.)', 'Yes.'],
    ['\n<think>a\n\nb</think>c ', '(a\n\nb)', 'c '],
    ['<think></think>Yes.', 'Yes.'],
    [`<think>Hm.</think>\n\n${call}`, '(Hm.)', '0:get', '{}'],
    // Within it, nothing is a call.
    [`<think>${call}</think>Yes.`, `(${call})`, 'Yes.'],
    ['<think>\nHm. ', '(Hm. )'],
    ['</think>\n\nYes.', 'Yes.'],
    // Text marks count at the beginning alone.
    ['Write <think>x</think>.', 'Write <think>x</think>.'],
    [' \nYes.\n', ' \nYes.\n'],
    ['<thin', '<thin'],
  ])('stands between its marks: %j', (answer, ...parts) => {
    expect(readText(format, answer)).toEqual(parts);
  });

  it('has begun where the prompt ends with its opening mark', () => {
    const promptEnd = '<|im_start|>assistant\n<think>\n';
    expect(format.opened(promptEnd)).toBe(true);
    expect(format.opened('<think>\n\n</think>\n\n')).toBe(false);
    expect(readText(format, 'Hm.\n</think>\n\nYes.', { promptEnd })).toEqual(['(Hm.)', 'Yes.']);
    expect(readText(format, 'Hm.', { promptEnd })).toEqual(['(Hm.)']);
  });

  it('stays content where it is not to be told apart', () => {
    const answer = '<think>\nHm.\n</think>\n\nYes.';
    expect(readText(format, answer, { thinks: false })).toEqual([answer]);
  });

  it('may begin anywhere where its marks are control tokens', () => {
    const pieces = tokenized('One.<think>Hm.</think>Two.', ['<think>', '</think>']);
    const isControl = (mark: string) => mark.endsWith('think>');
    expect(shown(readPieces(format, pieces, { isControl }))).toEqual(['One.', '(Hm.)', 'Two.']);
  });

  it.each([
    [bracketThink, '[THINK]Hm.[/THINK]Yes.'],
    [seedThink, '<seed:think>\nHm.</seed:think>Yes.'],
    [gemmaThought, '<|channel>thought\nHm.\n<channel|>Yes.'],
    [graniteThought, 'Here is my thought process:\nHm.\n\nHere is my response:\n\nYes.'],
    [graniteThought, "Here's my thought process: Hm. Here's my response: Yes."],
    [graniteThink, '<think>Hm.</think>\n<response>Yes.</response>'],
  ])('is known by many marks', (reasoning, answer) => {
    expect(readText(markedAnswer(hermes, reasoning), answer)).toEqual(['(Hm.)', 'Yes.']);
  });

  it.each([
    [think, `<think>\nHm.\n</think>\n\nYes. ${call}`],
    [bracketThink, '[THINK]Hm.[/THINK]Yes.'],
    [gemmaThought, '<|channel>thought\nHm.\n<channel|>Yes.'],
    [graniteThought, 'Here is my thought process:\nHm.\n\nHere is my response:\n\nYes.'],
    [graniteThink, `<think>Hm.</think>\n<response>Yes.</response>`],
  ])('shows no half mark where it is cut off', (reasoning, answer) => {
    const answers = markedAnswer(hermes, reasoning);
    for (const controls of [[], answers.marks]) {
      const pieces = tokenized(answer, controls);
      const isControl = (mark: string) => controls.includes(mark);
      for (let length = 0; length <= answer.length; length++)
        expectCut(answers, pieces, length, { isControl });
    }
  });

  it('leaves a call that must be the first thing the first thing', () => {
    const answer = '<think>Hm.</think>\n{"name": "get", "parameters": {}}';
    expect(readText(markedAnswer(llamaJson, think), answer)).toEqual(['(Hm.)', '0:get', '{}']);
  });
});
