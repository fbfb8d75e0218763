// Answers as a model would write them, for the tests of formats.

import { expect, it } from 'vitest';
import type { AnswerPart, Tool } from '../../src/text/formats/answer-part.ts';
import type { AnswerFormat, ReaderOptions, ToolFormat } from '../../src/text/formats/format.ts';
import { markedAnswer } from '../../src/text/formats/marked-answer.ts';

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

const clock: Tool = { name: 'get', strict: true, parameters: { type: 'object', properties: {} } };

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
  cut = false,
): AnswerPart[] {
  const reader = format.reader({
    tools,
    promptEnd: '',
    isControl: () => false,
    thinks: true,
    ...options,
  });
  return joined([...pieces.flatMap(({ text, control }) => reader.push(text, control)), ...reader.end(cut)]);
}

export interface ReadCall {
  readonly name: string;
  json: string;
}

export function callsIn(parts: readonly AnswerPart[]): ReadCall[] {
  const calls: ReadCall[] = [];
  for (const part of parts) {
    if (part.kind === 'call') calls.push({ name: part.name, json: '' });
    else if (part.kind === 'arguments') (calls[part.call] as ReadCall).json += part.text;
  }
  return calls;
}

function textOf(parts: readonly AnswerPart[], kind: 'content' | 'reasoning'): string {
  return parts.map((part) => (part.kind === kind ? part.text : '')).join('');
}

/** The first pieces of an answer, up to N characters; control tokens stay whole. */
function firstPieces(pieces: readonly Piece[], length: number): Piece[] {
  const first: Piece[] = [];
  let left = length;
  for (const { text, control } of pieces) {
    if (left < (control ? text.length : 1)) break;
    first.push({ text: text.slice(0, left), control });
    left -= text.length;
  }
  return first;
}

/** An answer that is cut off there shows the beginning of what the whole one shows, and no more. */
export function expectCut(
  format: AnswerFormat,
  pieces: readonly Piece[],
  length: number,
  options: Partial<ReaderOptions> = {},
): void {
  const whole = readPieces(format, pieces, options);
  const first = firstPieces(pieces, length);
  const cut = readPieces(format, first, options, true);
  const where = JSON.stringify(first.map(({ text }) => text).join(''));
  for (const kind of ['content', 'reasoning'] as const) {
    // Blanks before a call are no part of the whole answer.
    const shownOf = textOf(cut, kind).trimEnd();
    expect(textOf(whole, kind).startsWith(shownOf), `${kind} of ${where}: ${shownOf}`).toBe(true);
  }
  const calls = callsIn(whole);
  const known = callsIn(cut);
  expect(known.length, where).toBeLessThanOrEqual(calls.length);
  for (const [index, { name, json }] of known.entries()) {
    const { name: called, json: given } = calls[index] as ReadCall;
    expect(name, where).toBe(called);
    expect(json, where).not.toBe('');
    if (index < known.length - 1) expect(json, where).toBe(given);
    else expect(given.startsWith(json), `${where}: ${json}`).toBe(true);
  }
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
  it.each(calls)('shows no marks and no half calls where it is cut off: %j', (answer) => {
    for (const controls of [[], format.marks]) {
      const pieces = tokenized(answer, controls);
      const isControl = (mark: string) => controls.includes(mark);
      for (let length = 0; length <= answer.length; length++)
        expectCut(answers, pieces, length, { isControl });
    }
  });
  it.each(calls)('calls nothing without tools: %j', (answer) => {
    expect(readText(answers, answer, { tools: [] })).toEqual([answer]);
  });
}
