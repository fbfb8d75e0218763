// What must hold for every format, whatever is written and however it arrives.

import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { type Piece, readPieces, readText, tokenized } from '../../../test/support/answer-formats.ts';
import type { AnswerFormat } from './format.ts';
import { functiongemma, gemma } from './gemma.ts';
import { harmony } from './harmony.ts';
import { granite, hermes, llamaJson, phi } from './hermes.ts';
import { markedAnswer } from './marked-answer.ts';
import { mistral, mistralList } from './mistral.ts';
import { lfm2, pythonic, toolCode } from './pythonic.ts';
import { gemmaThought, think } from './reasoning.ts';
import { deepseekV3, deepseekV31, kimiK2 } from './sectioned.ts';
import { glm, qwenXml, seedXml } from './xml.ts';

const formats: readonly AnswerFormat[] = [
  harmony,
  markedAnswer(gemma, gemmaThought),
  ...[hermes, granite, phi, llamaJson, mistral, mistralList, deepseekV3, deepseekV31, kimiK2],
  ...[pythonic, lfm2, toolCode, qwenXml, seedXml, glm, functiongemma],
].map((format) => ('reader' in format ? format : markedAnswer(format, think)));

/** Pieces that any of the formats is made of: what comes of them is often nearly a call. */
const fragments: readonly string[] = [
  ...['get', 'get_weather', 'other', '{"name": "get", "arguments": {"a": [1, "\\u00e9"]}}', '{"name": "get"'],
  ...[
    '{}',
    '{"a": 1}',
    '{"a": ',
    '[',
    ']',
    '(',
    ')',
    '{',
    '}',
    ',',
    ';',
    ':',
    '=',
    '"',
    "'",
    '\\',
    '<',
    ' ',
    '\n',
  ],
  ...[
    '<function=get>',
    '<parameter=a>',
    '</parameter>',
    '</function>',
    'call:get{',
    'a=1',
    '```tool_code\n',
    '```',
  ],
  ...[
    'functions.get:0',
    'functools',
    'function',
    '```json\n',
    'thought',
    'analysis',
    'final',
    ' to=functions.get',
  ],
  ...['<think>', '</think>', '😀', 'text'],
];

function answers(format: AnswerFormat): fc.Arbitrary<string> {
  const own = fc.constantFrom(...format.marks, ...format.marks, ...fragments);
  return fc.array(own, { maxLength: 14 }).map((parts) => parts.join(''));
}

const cuts = fc.array(fc.nat({ max: 12 }), { minLength: 1, maxLength: 20 });

/** Text in pieces of these lengths, again and again; control tokens stay whole. */
function cut(pieces: readonly Piece[], lengths: readonly number[]): Piece[] {
  let turn = 0;
  return pieces.flatMap((piece) => {
    if (piece.control) return [piece];
    const parts: Piece[] = [];
    for (let rest = piece.text; rest !== ''; turn++) {
      const length = (lengths[turn % lengths.length] ?? 0) + (turn % lengths.length === 0 ? 1 : 0);
      parts.push({ text: rest.slice(0, length), control: false });
      rest = rest.slice(length);
    }
    return parts;
  });
}

describe.each(formats.map((format) => [format.name, format] as const))('%s', (_, format) => {
  it('reads the same however an answer is cut into pieces', () => {
    fc.assert(
      fc.property(answers(format), cuts, fc.boolean(), (answer, lengths, control) => {
        const isControl = (mark: string) => control && format.marks.includes(mark);
        const whole = control ? tokenized(answer, format.marks) : [{ text: answer, control }];
        expect(readPieces(format, cut(whole, lengths), { isControl })).toEqual(
          readPieces(format, whole, { isControl }),
        );
      }),
    );
  });

  it('passes on every character of an answer in which no mark stands', () => {
    const plain = fc.array(fc.constantFrom(...fragments), { maxLength: 20 }).map((parts) => parts.join(''));
    fc.assert(
      fc.property(plain, cuts, (answer, lengths) => {
        const pieces = cut([{ text: answer, control: false }], lengths);
        const parts = readPieces(format, pieces, { tools: [], thinks: false });
        expect(parts).toEqual(answer === '' ? [] : [{ kind: 'content', text: answer }]);
      }),
    );
  });

  it('loses nothing of calls that are none', () => {
    // With a tool that is never named, no answer holds a call.
    const tools = [{ name: 'never', strict: false, parameters: {} }];
    const endings = /<\|(end|return|call)\|>/g;
    fc.assert(
      fc.property(answers(format), cuts, (answer, lengths) => {
        const text = answer.replaceAll(endings, '').replaceAll(/<\|(start|channel)\|>/g, '');
        const pieces = cut([{ text, control: false }], lengths);
        const parts = readPieces(format, pieces, { tools, thinks: false });
        expect(parts).toEqual(text === '' ? [] : [{ kind: 'content', text }]);
      }),
    );
  });

  it('gives arguments that are one JSON object, unless the answer ends in them', () => {
    fc.assert(
      fc.property(answers(format), (answer) => {
        const parts = readPieces(format, [{ text: answer, control: false }]);
        for (const [index, part] of parts.entries()) {
          if (part.kind !== 'arguments') continue;
          const whole = isObject(part.text);
          // What breaks arguments off is text, and follows them at once.
          expect(whole || index === parts.length - 1 || parts[index + 1]?.kind === 'content').toBe(true);
        }
      }),
    );
  });

  it('shows nothing of a mark that is cut off', () => {
    for (const mark of format.marks)
      for (let length = 1; length < mark.length; length++) {
        const pieces = [{ text: `Yes.${mark.slice(0, length)}`, control: false }];
        const [first, ...more] = readPieces(format, pieces, {}, true);
        expect(first).toMatchObject({ kind: 'content' });
        // Marks that end something are text where nothing has begun.
        const isText = readPieces(format, [{ text: `Yes.${mark} no`, control: false }], {})[0];
        if (isText?.kind === 'content' && isText.text.startsWith(`Yes.${mark}`)) continue;
        expect([first, ...more]).toEqual([{ kind: 'content', text: 'Yes.' }]);
      }
  });

  it('takes any number of brackets', () => {
    const deep = '[{'.repeat(20_000);
    for (const mark of ['', ...format.marks])
      expect(readText(format, `${mark}${deep}`).length).toBeGreaterThan(0);
  });
});

function isObject(json: string): boolean {
  try {
    return json.startsWith('{') && typeof JSON.parse(json) === 'object';
  } catch {
    return false;
  }
}
