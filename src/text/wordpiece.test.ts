// WordPiece from tokenizer.json and from GGUF files, against Hugging Face tokenizers.

import { describe, expect, it } from 'vitest';
import { completed, ggufMetadata, wordPiece } from '../../test/fixtures/tokenizers/tokenizer-fixtures.ts';
import type { JsonObject } from '../weights/json-file.ts';
import { ggufTokenizer } from './gguf-tokenizer.ts';
import { jsonTokenizer } from './tokenizer-json/tokenizer-json.ts';
import { wordPieceEncoder } from './wordpiece.ts';

const vocab = Object.fromEntries(wordPiece.vocab.map((token, id) => [token, id]));
const open = (tokenizer: JsonObject) => jsonTokenizer({ path: 'tokenizer.json', tokenizer });
const whole = { special: true, bos: true, eos: true };

describe.each(Object.entries(wordPiece.styles))('WordPiece %s', (_, style) => {
  const tokenizer = open(completed(style.tokenizer, { vocab }));

  it.each(wordPiece.texts.map((text, at) => [text, at] as const))(
    'gives the reference ids: %j',
    (text, at) => {
      expect([...tokenizer.encode(text, whole)]).toEqual(style.ids[at]);
    },
  );

  it('decodes as the reference does', () => {
    expect(style.ids.map((ids) => tokenizer.decode(ids))).toEqual(style.decoded);
  });
});

/** As converters write it: a mark before what begins a word, none before what goes on with one. */
function asGguf(tokens: readonly string[], more: Readonly<Record<string, unknown>> = {}) {
  const isControl = (token: string) => /^\[[A-Z]+\]$/.test(token);
  const marked = (token: string) => {
    if (isControl(token)) return token;
    return token.startsWith('##') ? token.slice(2) : `▁${token}`;
  };
  return ggufMetadata({
    'ggml.model': 'bert',
    'ggml.tokens': tokens.map(marked),
    'ggml.token_type': Int32Array.from(tokens, (token) => (isControl(token) ? 3 : 1)),
    ...more,
  });
}

describe('WordPiece from a GGUF file', () => {
  const uncased = wordPiece.vocab.map((token) =>
    /^[A-Z][a-z]/.test(token) ? `${token.toLowerCase()}~` : token,
  );

  it('loses case where the vocabulary has none', () => {
    const tokenizer = ggufTokenizer(asGguf(uncased));
    expect(tokenizer.kind).toContain('without case');
    const style = wordPiece.styles['without case'];
    const ids = wordPiece.texts.map((text) => [...tokenizer.encode(text, whole)]);
    expect(ids).toEqual(style?.ids);
  });

  it('keeps case where it has some', () => {
    const tokenizer = ggufTokenizer(asGguf(wordPiece.vocab));
    const ids = wordPiece.texts.map((text) => [...tokenizer.encode(text, whole)]);
    expect(ids).toEqual(wordPiece.styles['with case']?.ids);
  });

  it('surrounds texts with the tokens that the file names', () => {
    const [cls, sep] = [vocab['[PAD]'] as number, vocab['[MASK]'] as number];
    const names = { 'ggml.cls_token_id': cls, 'ggml.seperator_token_id': sep };
    const ids = [...ggufTokenizer(asGguf(uncased, names)).encode('the', whole)];
    expect(ids).toEqual([cls, vocab.the, sep]);
  });

  it('is refused without a token for what is unknown', () => {
    const tokens = wordPiece.vocab.filter((token) => token !== '[UNK]');
    expect(() => ggufTokenizer(asGguf(tokens))).toThrow('tokenizer.ggml.unknown_token_id: is missing');
  });
});

describe('a WordPiece model in tokenizer.json', () => {
  const { tokenizer } = wordPiece.styles['with case'] as { tokenizer: JsonObject & { model: JsonObject } };

  it.each([
    ['an unknown token that the vocabulary lacks', { unk_token: '[NONE]' }, 'model.unk_token'],
    ['no limit of characters', { max_input_chars_per_word: 'many' }, 'model.max_input_chars_per_word'],
    ['no prefix', { continuing_subword_prefix: null }, 'model.continuing_subword_prefix'],
  ])('with %s is refused in one line that names it', (_, change, field) => {
    const model = { ...tokenizer.model, ...change };
    expect(() => open(completed({ ...tokenizer, model }, { vocab }))).toThrow(field);
  });
});

it('a word of any length takes no longer than its characters', () => {
  const beginnings = new Map([['a', 1]]);
  const encode = wordPieceEncoder({
    beginnings,
    continuations: new Map([['a', 2]]),
    unknownId: 0,
    longestWord: 3,
  });
  const ids: number[] = [];
  for (const word of ['aaa', 'aaaa', 'a'.repeat(1e6)]) encode(word, ids);
  expect(ids).toEqual([1, 2, 2, 0, 0]);
});
