// What a format's grammar lets a model write, its own reader takes for calls, and their arguments are valid: sampled at
// random through masks, with marks as control tokens and as plain text. Another validator is the judge.

import { Ajv2020 } from 'ajv/dist/2020.js';
import { describe, expect, it } from 'vitest';
import { rulesOf } from '../../src/grammar/assemble.ts';
import { compileRules } from '../../src/grammar/compile.ts';
import { SharedMasks } from '../../src/grammar/masks.ts';
import { Grammar, Matcher } from '../../src/grammar/matcher.ts';
import type { GrammarTables } from '../../src/grammar/tables.ts';
import { type VocabularyTables, vocabularyTables } from '../../src/grammar/vocabulary.ts';
import type { Tool } from '../../src/text/formats/answer-part.ts';
import type { AnswerFormat, CallMode } from '../../src/text/formats/format.ts';
import { functiongemma, gemma } from '../../src/text/formats/gemma.ts';
import { harmony } from '../../src/text/formats/harmony.ts';
import { granite, hermes, llamaJson, phi } from '../../src/text/formats/hermes.ts';
import { markedAnswer } from '../../src/text/formats/marked-answer.ts';
import { mistral, mistralList } from '../../src/text/formats/mistral.ts';
import { lfm2, pythonic, toolCode } from '../../src/text/formats/pythonic.ts';
import { think } from '../../src/text/formats/reasoning.ts';
import { deepseekV3, deepseekV31, kimiK2 } from '../../src/text/formats/sectioned.ts';
import { glm, qwenXml, seedXml } from '../../src/text/formats/xml.ts';
import { callsIn, expectCut, type Piece, type ReadCall, readPieces } from '../support/answer-formats.ts';
import { type Random, seededRandom } from '../support/random-schemas.ts';

/** Of each format, mode and kind of marks. */
const ANSWERS = Number(process.env.CHAIRLIFT_TOOL_ANSWERS ?? 1);
/** Places at which each is cut off. */
const CUTS = 20;
const MAX_TOKENS = 1500;
const END = 0;

/** What begins a call in the midst of text, or nothing where only its place does. */
const triggers: ReadonlyMap<AnswerFormat, string> = new Map([
  [harmony, 'to=functions.'],
  ...(
    [
      [hermes, '<tool_call>'],
      [granite, '<|tool_call|>'],
      [phi, '<|tool_call|>'],
      [llamaJson, ''],
      [mistral, '[TOOL_CALLS]'],
      [mistralList, '[TOOL_CALLS]'],
      [deepseekV3, '<｜tool▁calls▁begin｜>'],
      [deepseekV31, '<｜tool▁calls▁begin｜>'],
      [kimiK2, '<|tool_calls_section_begin|>'],
      [pythonic, ''],
      [lfm2, '<|tool_call_start|>'],
      [toolCode, '```tool_code'],
      [qwenXml, '<tool_call>'],
      [seedXml, '<seed:tool_call>'],
      [glm, '<tool_call>'],
      [gemma, '<|tool_call>'],
      [functiongemma, '<start_function_call>'],
    ] as const
  ).map(([format, trigger]) => [markedAnswer(format, undefined), trigger] as const),
  [markedAnswer(hermes, think), '<tool_call>'],
  [markedAnswer(glm, think), '<tool_call>'],
]);

const tools: readonly Tool[] = [
  { name: 'now', parameters: { type: 'object', properties: {} } },
  {
    name: 'now:1',
    parameters: {
      type: 'object',
      properties: { zone: { $ref: '#/$defs/zone' }, exact: { type: 'boolean' } },
      required: ['zone'],
      $defs: { zone: { type: 'string', enum: ['UTC', 'Europe/Rome', 'a "b"', ' x ', '\n'] } },
    },
  },
  {
    name: 'now.plan-trip',
    parameters: {
      type: 'object',
      properties: {
        note: { type: 'string' },
        code: { type: 'string', pattern: '^[A-Z]{2}\\d+$' },
        day: { type: ['string', 'null'], format: 'date' },
        who: { type: 'string', minLength: 2, maxLength: 5 },
        stops: {
          type: 'array',
          minItems: 1,
          maxItems: 3,
          items: {
            type: 'object',
            properties: {
              city: { type: 'string', maxLength: 8 },
              at: { type: 'array', items: { type: 'number', minimum: -90, maximum: 90 }, maxItems: 2 },
              open: { type: 'boolean' },
            },
            required: ['city', 'open'],
            additionalProperties: false,
          },
        },
        toString: { anyOf: [{ type: 'integer' }, { enum: ['all', null, true] }] },
        'odd key': { const: 'fixed' },
        'a:b': { type: 'integer', minimum: 3, maximum: 70 },
        any: {},
      },
      required: ['code', 'stops', 'a:b'],
    },
  },
  { name: 'any', parameters: {} },
].map((tool) => ({ ...tool, strict: true }));

const pieces = [
  '": ',
  '", "',
  '{"',
  '"}',
  '}, {',
  '[{"',
  '\\n',
  '\n',
  '  ',
  'é',
  '😀',
  'true',
  'null',
  "'",
  '</',
  '<|',
  '```',
];

/** Bytes, pieces of several parts of JSON, and marks: control tokens or not. */
function vocabularyOf({ marks }: AnswerFormat, areControls: boolean): VocabularyTables {
  const bytes = Array.from({ length: 256 }, (_, byte) => Uint8Array.of(byte));
  const spelled = [...pieces, ...(areControls ? [] : marks)].map((text) => new Uint8Array(Buffer.from(text)));
  const controls = areControls ? marks : [];
  const tokens = [new Uint8Array(0), ...bytes, ...spelled];
  return vocabularyTables({
    vocabSize: tokens.length + controls.length,
    eosIds: new Set([END]),
    stripsLeadingSpace: false,
    tokenBytes: (id) => tokens[id] ?? new Uint8Array(0),
    isSpecial: (id) => id === END || id >= tokens.length,
  });
}

function compiled(format: AnswerFormat, vocabulary: VocabularyTables, mode: CallMode, parallel: boolean) {
  const expression = format.grammar({ tools, mode, parallel, opened: false });
  const first = vocabulary.starts.length - 1 - (vocabulary.controls.length - 1);
  const isControl = vocabulary.controls.length > 1;
  const find = (spelling: string) => {
    const at = isControl ? format.marks.indexOf(spelling) : -1;
    return at < 0 ? undefined : first + at;
  };
  return { tables: compileRules(rulesOf(expression, find).rules), first };
}

/** What a model that knows nothing writes, in pieces; undefined where it comes to no end. */
function sampled(
  tables: GrammarTables,
  vocabulary: VocabularyTables,
  spell: (token: number) => string,
  random: Random,
): Piece[] | undefined {
  const matcher = new Matcher(new Grammar(tables, vocabulary, new SharedMasks(500)), false);
  const answer: Piece[] = [];
  let bytes: number[] = [];
  const flush = () => {
    if (bytes.length > 0) answer.push({ text: Buffer.from(bytes).toString('utf8'), control: false });
    bytes = [];
  };
  for (let step = 0; step < MAX_TOKENS && !matcher.ended; step++) {
    const token = picked(matcher.mask(), vocabulary, random, step);
    if (token === END) break;
    expect(matcher.accept(token)).toBe(true);
    if (vocabulary.controls.includes(token)) {
      flush();
      answer.push({ text: spell(token), control: true });
    } else bytes.push(...vocabulary.bytes.subarray(vocabulary.starts[token], vocabulary.starts[token + 1]));
  }
  flush();
  return matcher.complete ? answer : undefined;
}

/** Marks and longer tokens more often than they would come by chance, and late what ends things. */
function picked(mask: Uint32Array, vocabulary: VocabularyTables, random: Random, step: number): number {
  const allowed: number[] = [];
  for (let id = 0; id < vocabulary.size; id++)
    if ((((mask[id >>> 5] as number) >>> (id & 31)) & 1) === 1) allowed.push(id);
  const one = (ids: readonly number[]) => ids[random(ids.length)] as number;
  if (allowed[0] === END && random(step > 200 ? 2 : 60) === 0) return END;
  const some = allowed.length > 1 ? allowed.filter((id) => id !== END) : allowed;
  const closing = some.filter((id) => id <= 256 && '"]})>'.includes(String.fromCharCode(id - 1)));
  if (step > 100 && closing.length > 0 && random(3) > 0) return one(closing);
  const long = some.filter((id) => id > 256);
  if (long.length > 0 && random(step > 100 ? 12 : 5) === 0) return one(long);
  const plain = some.filter((id) => id > 1 && id <= 0x7f);
  return one(plain.length > 0 ? plain : some);
}

const ajv = new Ajv2020({ strict: false, unicodeRegExp: true, ownProperties: true, validateFormats: false });
const validators = new Map(tools.map(({ name, parameters }) => [name, ajv.compile(parameters as object)]));

function checkCalls(calls: readonly ReadCall[], where: string): void {
  for (const { name, json } of calls) {
    const validate = validators.get(name);
    let given: unknown;
    expect(() => {
      given = JSON.parse(json);
    }, `${where}\n${json}`).not.toThrow();
    expect(validate?.(given), `${where}\n${name} ${json}\n${JSON.stringify(validate?.errors)}`).toBe(true);
  }
}

describe.each(
  [...triggers].map(
    ([format, trigger]) =>
      [
        `${format.name}${format.reasons && format !== harmony ? ' behind reasoning' : ''}`,
        format,
        trigger,
      ] as const,
  ),
)('an answer in the format %s', (_, format, trigger) => {
  const kinds = [
    ['required', true],
    ['required', false],
    ['auto', true],
    ['auto', false],
  ] as const;

  it.each(kinds)(
    'with calls that are %s (marks are control tokens: %s) is read as it was meant',
    (mode, areControls) => {
      const vocabulary = vocabularyOf(format, areControls);
      let ended = 0;
      let called = 0;
      for (let seed = 1; seed <= ANSWERS; seed++) {
        const random = seededRandom(seed);
        const { tables, first } = compiled(format, vocabulary, mode, seed % 2 === 0);
        const answer = sampled(tables, vocabulary, (token) => format.marks[token - first] ?? '', random);
        if (answer === undefined) continue;
        ended++;
        const isControl = (mark: string) => areControls && format.marks.includes(mark);
        const parts = readPieces(format, answer, { tools, isControl });
        const length = answer.reduce((sum, { text }) => sum + text.length, 0);
        for (let cut = 0; cut < CUTS; cut++)
          expectCut(format, answer, random(length + 1), { tools, isControl });
        const where = `seed ${seed}: ${JSON.stringify(answer.map(({ text }) => text).join(''))}`;
        const calls = callsIn(parts);
        called += calls.length;
        checkCalls(calls, where);
        const content = parts.map((part) => (part.kind === 'content' ? part.text : '')).join('');
        if (mode === 'required') {
          expect(calls.length, where).toBeGreaterThan(0);
          expect(content.trim(), where).toBe('');
        } else if (trigger === '') expect(content, where).not.toMatch(/^\s*[[{]/);
        else expect(content, where).not.toContain(trigger);
      }
      expect(ended).toBeGreaterThan(ANSWERS / 4);
      if (mode === 'required') expect(called).toBeGreaterThanOrEqual(ended);
    },
  );
});
