// Answers as a model would write them, for the tests of formats.

import { expect, it } from 'vitest';
import type { AnswerFormat, AnswerPart, ReaderOptions, Tool } from '../../src/text/formats/format.ts';
import { markedAnswer } from '../../src/text/formats/marked-answer.ts';
import type { ToolFormat } from '../../src/text/formats/tool-format.ts';

export const weather: Tool = {
  name: 'get_weather',
  description: 'The weather of a place',
  strict: false,
  parameters: {
    type: 'object',
    properties: {
      city: { type: 'string' },
      days: { type: 'integer' },
      exact: { type: 'boolean' },
      hours: { type: 'array', items: { type: 'integer' } },
    },
    required: ['city'],
  },
};

export const clock: Tool = { name: 'get', strict: true, parameters: { type: 'object', properties: {} } };

/** One name begins as the other does. */
export const tools: readonly Tool[] = [clock, weather];

export interface Piece {
  readonly text: string;
  readonly control: boolean;
}

/** The answer with its marks as control tokens, as a tokenizer that has them would give it. */
export function tokenized(answer: string, marks: readonly string[]): Piece[] {
  const longest = [...marks].sort((a, b) => b.length - a.length);
  const pieces: Piece[] = [];
  let text = '';
  for (let index = 0; index < answer.length; ) {
    const mark = longest.find((candidate) => answer.startsWith(candidate, index));
    if (mark === undefined) text += answer.charAt(index++);
    else {
      if (text !== '') pieces.push({ text, control: false });
      pieces.push({ text: mark, control: true });
      text = '';
      index += mark.length;
    }
  }
  return text === '' ? pieces : [...pieces, { text, control: false }];
}

export function readPieces(
  format: AnswerFormat,
  pieces: readonly Piece[],
  options: Partial<ReaderOptions> = {},
): AnswerPart[] {
  const reader = format.reader({
    tools,
    promptEnd: '',
    isControl: () => false,
    thinks: true,
    ...options,
  });
  return joined([...pieces.flatMap(({ text, control }) => reader.push(text, control)), ...reader.end()]);
}

export function readText(format: AnswerFormat, answer: string, options: Partial<ReaderOptions> = {}) {
  return shown(readPieces(format, [{ text: answer, control: false }], options));
}

/** Neighbours of one kind as one part. */
function joined(parts: readonly AnswerPart[]): AnswerPart[] {
  const result: AnswerPart[] = [];
  for (const part of parts) {
    const last = result.at(-1);
    if (part.kind !== 'call' && last?.kind === part.kind)
      result[result.length - 1] = { ...part, text: last.text + part.text };
    else result.push(part);
  }
  return result;
}

/** Parts as short lines: tables of them can be read. */
export function shown(parts: readonly AnswerPart[]): string[] {
  return parts.map((part) => {
    if (part.kind === 'content') return part.text;
    if (part.kind === 'reasoning') return `(${part.text})`;
    return part.kind === 'call' ? `${part.call}:${part.name}` : part.text;
  });
}

/** What an answer is read as; a single line that equals the answer is text. */
type Transcript = readonly [answer: string, ...parts: string[]];

export function itReads(format: ToolFormat, calls: readonly Transcript[], texts: readonly string[]): void {
  const answers = markedAnswer(format, undefined);
  it.each(calls)('finds the calls in %j', (answer, ...parts) => {
    expect(readText(answers, answer)).toEqual(parts);
  });
  it.each(texts)('leaves %j as it is', (answer) => {
    expect(readText(answers, answer)).toEqual([answer]);
  });
  it.each(calls)('calls nothing without tools: %j', (answer) => {
    expect(readText(answers, answer, { tools: [] })).toEqual([answer]);
  });
}
