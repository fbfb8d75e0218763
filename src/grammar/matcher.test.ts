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
import { Grammar } from './matcher.ts';
import { SharedMasks } from './shared-masks.ts';
import { vocabularyTables } from './vocabulary.ts';

const files = openModelFiles(embeddedModelPath);
const byteLevel = openText(files).tokenizer;
files.weights.close();
const sentencePiece = ggufTokenizer(ggufMetadata(sentencePieceGguf()));
const tokenizers = { 'byte level': byteLevel, 'with a space in front': sentencePiece };

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
        let place = grammar.start(continues);
        const before: number[] = [];
        while (before.length < 40) {
          const mask = grammar.mask(place);
          const possible: number[] = [];
          for (let token = 0; token < tokenizer.vocabSize; token++) {
            if (tokenizer.eosIds.has(token)) {
              expect(allowed(mask, token), `end after ${before}`).toBe(place.complete);
              continue;
            }
            const isPossible = grammar.next(place, token) !== null;
            if (isPossible !== allowed(mask, token)) expect.fail(`${token} after ${before}: ${isPossible}`);
            if (isPossible) possible.push(token);
          }
          const token = possible[random(possible.length)];
          if (token === undefined) break;
          before.push(token);
          place = grammar.next(place, token) as typeof place;
        }
        expect(before.length).toBeGreaterThan(0);
      }
    },
  );
});
