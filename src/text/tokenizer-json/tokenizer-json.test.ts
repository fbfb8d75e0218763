// tokenizer.json against Hugging Face tokenizers: added tokens, SentencePiece styles, faults.

import { describe, expect, it } from 'vitest';
import {
  byteLevel,
  completed,
  sentencePiece,
  sentencePieceJson,
  specialTokens,
} from '../../../test/fixtures/tokenizers/tokenizer-fixtures.ts';
import type { JsonObject } from '../../weights/json-file.ts';
import type { Tokenizer } from '../tokenizer.ts';
import { jsonTokenizer, type TokenizerFiles } from './tokenizer-json.ts';

const open = (tokenizer: JsonObject, files: Partial<TokenizerFiles> = {}): Tokenizer =>
  jsonTokenizer({ path: 'tokenizer.json', tokenizer, ...files });

const minimal = {
  model: { type: 'BPE', vocab: { a: 0, b: 1, ab: 2, '<s>': 3, '</s>': 4 }, merges: ['a b'] },
  added_tokens: [
    { id: 3, content: '<s>', special: true },
    { id: 4, content: '</s>', special: true },
  ],
  decoder: { type: 'Fuse' },
};

describe('added tokens', () => {
  const tokenizer = open(completed(specialTokens.tokenizer, byteLevel));

  it.each(specialTokens.cases)('are found in $text as in the reference', (example) => {
    expect([...tokenizer.encode(example.text, { special: true })]).toEqual(example.parsed);
  });

  it.each(specialTokens.cases)('stay text in $text where the caller says so', (example) => {
    expect([...tokenizer.encode(example.text)]).toEqual(example.plain);
  });

  it.each(specialTokens.cases)('surround $text as the post-processor says, but never twice', (example) => {
    const ids = [...tokenizer.encode(example.text, { special: true, bos: true, eos: true })];
    const bos = example.surrounded[0] as number;
    const doubled = example.parsed[0] === bos;
    expect(ids).toEqual(doubled ? example.surrounded.slice(1) : example.surrounded);
  });

  it.each(specialTokens.cases)('decode as in the reference: $text', (example) => {
    expect(tokenizer.decode(example.parsed)).toBe(example.decoded);
    expect(tokenizer.decode(example.parsed, { special: true })).toBe(example.decodedWithSpecial);
  });
});

describe.each(Object.entries(sentencePieceJson.styles))('SentencePiece in the %s style', (_, style) => {
  const vocab = Object.fromEntries(sentencePiece.tokens.map((token, id) => [token, id]));
  const tokenizer = open(completed(style.tokenizer, { vocab, merges: sentencePieceJson.merges }));

  it('gives the reference ids', () => {
    const ids = sentencePieceJson.texts.map((text) => [...tokenizer.encode(text, { special: true })]);
    expect(ids).toEqual(style.ids);
  });

  it('decodes as the reference does', () => {
    expect(style.ids.map((ids) => tokenizer.decode(ids))).toEqual(style.decoded);
  });

  it('puts BOS in front where asked', () => {
    expect(tokenizer.addBos).toBe(true);
    expect([...tokenizer.encode('', { bos: true })]).toEqual([1]);
  });
});

describe('tokenizer settings', () => {
  it('take BOS and the ends of generation from the files beside tokenizer.json', () => {
    const tokenizer = open(minimal, {
      tokenizerConfig: { bos_token: '<s>', eos_token: { content: '</s>' }, add_bos_token: true },
      generationConfig: { eos_token_id: [4, 2] },
    });
    expect(tokenizer.bosId).toBe(3);
    expect(tokenizer.eosId).toBe(4);
    expect([...tokenizer.eosIds].sort()).toEqual([2, 4]);
    expect([...tokenizer.encode('ab', { bos: true })]).toEqual([3, 2]);
  });

  it('let add_bos_token take a BOS away that the post-processor adds', () => {
    const post_processor = {
      type: 'TemplateProcessing',
      single: [{ SpecialToken: { id: '<s>' } }, { Sequence: { id: 'A' } }],
      special_tokens: { '<s>': { ids: [3] } },
    };
    const tokenizerConfig = { bos_token: '<s>', add_bos_token: false };
    expect(open({ ...minimal, post_processor }).addBos).toBe(true);
    expect(open({ ...minimal, post_processor }, { tokenizerConfig }).addBos).toBe(false);
  });

  it('fall back to special_tokens_map.json', () => {
    const tokenizer = open(minimal, { tokenizerConfig: {}, specialTokensMap: { bos_token: '<s>' } });
    expect(tokenizer.bosId).toBe(3);
  });

  it('count a turn’s end as an end even where no file declares it', () => {
    const added_tokens = [{ id: 5, content: '<|im_end|>', special: true }];
    expect([...open({ ...minimal, added_tokens }).eosIds]).toEqual([5]);
  });

  it('keep `<|end|>` of a message where `<|return|>` and `<|call|>` end the turn', () => {
    const added_tokens = ['<|end|>', '<|return|>', '<|call|>'].map((content, index) => ({
      id: 5 + index,
      content,
      special: true,
    }));
    expect([...open({ ...minimal, added_tokens }).eosIds].sort()).toEqual([6, 7]);
  });
});

describe('a vocabulary without bytes', () => {
  it('turns characters it lacks into the unknown token, fused where the file says so', () => {
    const model = { ...minimal.model, vocab: { ...minimal.model.vocab, '?': 5 }, unk_token: '?' };
    expect([...open({ ...minimal, model }).encode('axyb')]).toEqual([0, 5, 5, 1]);
    const fused = { ...model, fuse_unk: true };
    expect([...open({ ...minimal, model: fused }).encode('axyb')]).toEqual([0, 5, 1]);
  });
});

describe('faults name the component', () => {
  const faults: readonly (readonly [string, JsonObject, RegExp])[] = [
    [
      'a WordLevel model',
      { model: { type: 'WordLevel', vocab: {} } },
      /model\.type: "WordLevel" is not supported/,
    ],
    [
      'a Unigram model without an unknown token',
      { model: { type: 'Unigram', vocab: [['a', -1]] } },
      /model\.unk_id: is missing/,
    ],
    [
      'a vocabulary without scores',
      { model: { type: 'Unigram', vocab: ['a'], unk_id: 0 } },
      /not a pair of token and score/,
    ],
    ['a missing model', {}, /tokenizer\.json: model: is missing/],
    ['a normalizer', { ...minimal, normalizer: { type: 'Nmt' } }, /normalizer\.type: "Nmt"/],
    [
      'a pre-tokenizer in a sequence',
      {
        ...minimal,
        pre_tokenizer: {
          type: 'Sequence',
          pretokenizers: [{ type: 'Digits' }, { type: 'UnicodeScripts' }],
        },
      },
      /pre_tokenizer\.pretokenizers\[1\]\.type: "UnicodeScripts" is not supported/,
    ],
    ['a decoder', { ...minimal, decoder: { type: 'CTC' } }, /decoder\.type: "CTC"/],
    ['a post-processor', { ...minimal, post_processor: { type: 'Odd' } }, /post_processor\.type: "Odd"/],
    [
      'a regular expression',
      { ...minimal, pre_tokenizer: { type: 'Split', behavior: 'Isolated', pattern: { Regex: 'a\\K' } } },
      /pre_tokenizer\.pattern\.Regex: .*\\K/,
    ],
    [
      'a merge outside the vocabulary',
      { ...minimal, model: { ...minimal.model, merges: [['a', 'c']] } },
      /model\.merges: merge 0 needs the token "c"/,
    ],
    ['a merge that is none', { ...minimal, model: { ...minimal.model, merges: ['ab'] } }, /merges\[0\]/],
    ['an id that is none', { ...minimal, model: { type: 'BPE', vocab: { a: -1 }, merges: [] } }, /vocab\.a/],
  ];
  it.each(faults)('%s', (_, tokenizer, message) => {
    expect(() => open(tokenizer)).toThrow(message);
  });
});
