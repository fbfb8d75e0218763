// Masks against what they stand for: every token tried by itself.

import { describe, expect, it } from 'vitest';
import { ggufMetadata, sentencePieceGguf } from '../../test/fixtures/tokenizers/tokenizer-fixtures.ts';
import { embeddedModelPath } from '../../test/support/embedded-model.ts';
import { ggufTokenizer } from '../text/gguf-tokenizer.ts';
import { openText } from '../text/open-text.ts';
import { openModelFiles } from '../weights/open-model.ts';
import { rulesOf } from './assemble.ts';
import { compileRules } from './compile.ts';
import type { Expression } from './expression.ts';
import { SharedMasks } from './masks.ts';
import { Grammar } from './matcher.ts';
import { type TokenSource, vocabularyTables } from './vocabulary.ts';

const files = openModelFiles(embeddedModelPath);
const byteLevel = openText(files).tokenizer;
files.weights.close();
const sentencePiece = ggufTokenizer(ggufMetadata(sentencePieceGguf()));
/** Halves of characters, twins, tokens of nothing, and such as span several parts of JSON. */
function oddTokens(): TokenSource {
  const texts = [
    '',
    '',
    '"',
    '"',
    '{"name": "',
    '", "tags": [',
    '"], "amount": -',
    '}',
    ' ',
    '  ',
    ' "',
    '\\u00',
    'e9',
    '<call>{"x":',
    '</call><',
    '<ca',
    'll>',
    '12',
    '1',
    '.5',
    '(((',
    '))',
    'ab',
    ' ab 12',
    'é',
  ];
  const halves = [[0xc3], [0xa9], [0xc3, 0xa9, 0xc3], [0xf0, 0x9f], [0x98, 0x80], [0x80, 0x22], [0xff]];
  const bytes = Array.from({ length: 0x60 }, (_, at) => [at + 0x20]);
  const tokens = [
    ...texts.map((text) => Buffer.from(text)),
    ...[...halves, ...bytes].map((all) => Buffer.from(all)),
  ];
  const end = tokens.length;
  return {
    vocabSize: end + 1,
    eosIds: new Set([end]),
    stripsLeadingSpace: true,
    tokenBytes: (id) => tokens[id] ?? new Uint8Array(0),
    isSpecial: (id) => id === end,
  };
}

const tokenizers: Readonly<Record<string, TokenSource>> = {
  'byte level': byteLevel,
  'with a space in front': sentencePiece,
  'of odd tokens': oddTokens(),
};

const grammars: Readonly<Record<string, Expression>> = {
  'any JSON': { kind: 'schema', schema: true },
  'an object': {
    kind: 'schema',
    schema: {
      type: 'object',
      properties: {
        name: { type: 'string', minLength: 2, maxLength: 9 },
        tags: { type: 'array', items: { enum: ['red', 'green', 'blue "ish"'] }, maxItems: 3 },
        at: { type: 'string', format: 'date' },
        amount: { type: 'number', minimum: -3.5, maximum: 1200 },
      },
      required: ['name', 'tags', 'amount'],
      additionalProperties: { type: 'boolean' },
    },
  },
  'a regular expression': { kind: 'regex', pattern: '([a-z]+ ){1,3}\\d{2,4}(é|ü)?' },
  'a grammar that is nested': { kind: 'grammar', text: 'root ::= "(" root* ")" | [a-c]+ ' },
  'free text with marks that overlap': {
    kind: 'sequence',
    parts: [
      { kind: 'free', without: ['<call>', 'all>{', '<<', '"a'] },
      { kind: 'choice', options: ['<call>', '<', '<<a'].map((text) => ({ kind: 'text', text })) },
      { kind: 'free', without: ['</call'] },
    ],
  },
  'a call within free text': {
    kind: 'repeat',
    least: 0,
    part: {
      kind: 'sequence',
      parts: [
        { kind: 'free', without: ['<call>'] },
        { kind: 'text', text: '<call>' },
        {
          kind: 'schema',
          schema: { type: 'object', properties: { x: { type: 'integer' } }, required: ['x'] },
        },
        { kind: 'text', text: '</call>' },
      ],
    },
  },
};

function allowed(mask: Uint32Array, token: number): boolean {
  return (((mask[token >>> 5] as number) >>> (token & 31)) & 1) === 1;
}

describe.each(Object.entries(tokenizers))('a mask over a vocabulary %s', (_, tokenizer) => {
  const vocabulary = vocabularyTables(tokenizer);

  it.each(Object.entries(grammars))(
    'of %s holds the tokens that can follow, and no other',
    (_, expression) => {
      const tables = compileRules(rulesOf(expression, () => undefined).rules);
      const grammar = new Grammar(tables, vocabulary, new SharedMasks(64));
      let state = 7;
      const random = (below: number) => {
        state = (Math.imul(state, 1_103_515_245) + 12_345) >>> 0;
        return (state >>> 8) % below;
      };
      for (const continues of [false, true, false]) {
        let parserState = grammar.start(continues);
        const before: number[] = [];
        while (before.length < 40) {
          const mask = grammar.mask(parserState);
          const possible: number[] = [];
          for (let token = 0; token < tokenizer.vocabSize; token++) {
            if (tokenizer.eosIds.has(token)) {
              expect(allowed(mask, token), `end after ${before}`).toBe(parserState.complete);
              continue;
            }
            const isPossible = grammar.next(parserState, token) !== null;
            if (isPossible !== allowed(mask, token)) expect.fail(`${token} after ${before}: ${isPossible}`);
            if (isPossible) possible.push(token);
          }
          const token = possible[random(possible.length)];
          if (token === undefined) break;
          before.push(token);
          parserState = grammar.next(parserState, token) as typeof parserState;
        }
        expect(before.length).toBeGreaterThan(0);
      }
    },
  );
});
