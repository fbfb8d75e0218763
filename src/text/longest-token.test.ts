// How much text a token can stand for: a bound that servers trust before they encode anything.

import { describe, expect, it } from 'vitest';
import {
  byteLevel,
  byteLevelGguf,
  completed,
  families,
  ggufMetadata,
  sentencePiece,
  sentencePieceGguf,
  sentencePieceJson,
  texts,
} from '../../test/fixtures/tokenizers/tokenizer-fixtures.ts';
import { embeddedModelPath } from '../../test/support/embedded-model.ts';
import { openLocalModel } from '../pool/local-model.ts';
import type { JsonObject } from '../weights/json-file.ts';
import { ggufTokenizer } from './gguf-tokenizer.ts';
import type { Tokenizer } from './tokenizer.ts';
import { jsonTokenizer } from './tokenizer-json/tokenizer-json.ts';

const json = (tokenizer: JsonObject) => jsonTokenizer({ path: 'tokenizer.json', tokenizer });
const spmVocab = Object.fromEntries(sentencePiece.tokens.map((token, id) => [token, id]));
const byteLevelJson = (more: JsonObject = {}) =>
  json({
    model: { type: 'BPE', ...byteLevel },
    pre_tokenizer: { type: 'ByteLevel', add_prefix_space: false },
    decoder: { type: 'ByteLevel' },
    ...more,
  });

const bounded: readonly (readonly [string, Tokenizer])[] = [
  ['byte-level GGUF', ggufTokenizer(ggufMetadata(byteLevelGguf('gpt-2', ['<|im_end|>'])))],
  ['SentencePiece GGUF', ggufTokenizer(ggufMetadata(sentencePieceGguf()))],
  ['the embedded model', openLocalModel(embeddedModelPath).tokenizer],
  ['byte-level JSON', byteLevelJson()],
  ['byte-level JSON with composition', byteLevelJson({ normalizer: { type: 'NFC' } })],
  ['byte-level JSON with compatibility', byteLevelJson({ normalizer: { type: 'NFKC' } })],
  ...Object.entries(families)
    .slice(0, 4)
    .map(([name, { preTokenizer }]) => [name, byteLevelJson({ pre_tokenizer: preTokenizer })] as const),
  ...Object.entries(sentencePieceJson.styles).map(
    ([name, { tokenizer }]) =>
      [
        `SentencePiece JSON, ${name}`,
        json(completed(tokenizer, { vocab: spmVocab, merges: sentencePieceJson.merges })),
      ] as const,
  ),
];

describe.each(bounded)('of %s', (_, tokenizer) => {
  const spelled = Array.from({ length: tokenizer.vocabSize }, (_, id) => tokenizer.tokenText(id) ?? '');
  const longest = spelled.reduce((one, other) => (other.length > one.length ? other : one), '');
  const dense = [
    ...texts,
    longest.repeat(50),
    longest.replaceAll('▁', ' ').replaceAll('Ġ', ' ').repeat(50),
    ' '.repeat(1000),
    '\n'.repeat(1000),
    // Four characters that compose to one, and letters of two units that become one.
    '\u03b1\u0313\u0300\u0345'.repeat(200),
    '\u{1d6c2}\u0313\u0300\u0345'.repeat(200),
    '\u1100\u1161\u11a8'.repeat(200),
    '\u{1f3bf}'.repeat(300),
    '\ud83c'.repeat(300),
  ];

  it('no token stands for more', () => {
    expect(tokenizer.longestToken).toBeLessThan(4096);
    for (const special of [false, true]) {
      for (const text of dense) {
        const fewest = text.length / tokenizer.longestToken;
        expect(tokenizer.encode(text, { special }).length, text.slice(0, 40)).toBeGreaterThanOrEqual(fewest);
      }
    }
  });
});

describe('there is no bound', () => {
  const unknown = { type: 'BPE', vocab: { a: 0, '?': 1 }, merges: [], unk_token: '?', fuse_unk: true };

  it.each<[string, JsonObject]>([
    ['unknown characters fuse', { model: unknown }],
    ['characters without a token are dropped', { model: { type: 'BPE', vocab: { a: 0 }, merges: [] } }],
    ['spaces are removed', { ...byteLevelModel(), pre_tokenizer: { type: 'WhitespaceSplit' } }],
    ['a text is stripped', { ...byteLevelModel(), normalizer: { type: 'Strip', strip_left: true } }],
    [
      'an expression is replaced',
      {
        ...byteLevelModel(),
        normalizer: { type: 'Replace', pattern: { Regex: ' +' }, content: ' ' },
      },
    ],
    ['a token swallows the spaces around it', swallowing()],
  ])('where %s', (_, tokenizer) => {
    expect(json(tokenizer).longestToken).toBe(Number.POSITIVE_INFINITY);
  });
});

function byteLevelModel(): JsonObject {
  return {
    model: { type: 'BPE', ...byteLevel },
    pre_tokenizer: { type: 'ByteLevel' },
    decoder: { type: 'ByteLevel' },
  };
}

function swallowing(): JsonObject {
  const added_tokens = [{ id: 9999, content: '<mask>', special: true, lstrip: true }];
  return { ...byteLevelModel(), added_tokens };
}
