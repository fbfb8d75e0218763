// Unigram and SentencePiece's normalization against Hugging Face tokenizers (test/fixtures/tokenizers/unigram.json: a vocabulary that
// SentencePiece trained, converted as XLM-RoBERTa's is).

import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { ggufMetadata } from '../../test/fixtures/tokenizers/tokenizer-fixtures.ts';
import type { JsonObject } from '../weights/json-file.ts';
import { ggufTokenizer } from './gguf-tokenizer.ts';
import { charsmapNormalizer } from './precompiled-charsmap.ts';
import { finish } from './steps.ts';
import { jsonTokenizer } from './tokenizer-json/tokenizer-json.ts';
import { unigramEncoder } from './unigram.ts';

const fixture: {
  readonly tokenizer: JsonObject & { readonly model: JsonObject };
  readonly cases: readonly (readonly [text: string, ids: readonly number[]])[];
  readonly whole: readonly (readonly [text: string, ids: readonly number[]])[];
  readonly pairs: readonly (readonly [first: string, second: string, ids: readonly number[]])[];
} = JSON.parse(readFileSync(new URL('../../test/fixtures/tokenizers/unigram.json', import.meta.url), 'utf8'));
const tokenizer = jsonTokenizer({ path: 'tokenizer.json', tokenizer: fixture.tokenizer });

interface Scored {
  readonly vocab: readonly (readonly [token: string, score: number])[];
}

/** The same as converters write it to a GGUF file. */
function asGguf() {
  const { vocab } = fixture.tokenizer.model as unknown as Scored;
  const found = JSON.stringify(fixture.tokenizer).match(/"precompiled_charsmap":"([^"]+)"/)?.[1] ?? '';
  const control = ['<s>', '<pad>', '</s>'];
  return ggufTokenizer(
    ggufMetadata({
      'ggml.model': 't5',
      'ggml.tokens': vocab.map(([token]) => token),
      'ggml.scores': Float32Array.from(vocab, ([, score]) => score),
      'ggml.token_type': Int32Array.from(vocab, ([token]) =>
        control.includes(token) ? 3 : token === '<unk>' ? 2 : 1,
      ),
      'ggml.precompiled_charsmap': Int32Array.from(Buffer.from(found, 'base64')),
      'ggml.bos_token_id': 0,
      'ggml.eos_token_id': 2,
      'ggml.seperator_token_id': 2,
      'ggml.unknown_token_id': 3,
      'ggml.add_bos_token': true,
      'ggml.add_eos_token': true,
      'ggml.add_sep_token': true,
    }),
  );
}

describe('a Unigram tokenizer of a GGUF file', () => {
  const own = asGguf();

  it.each(fixture.cases)('encodes %j as that of the folder', (text, ids) => {
    expect([...own.encode(text, { special: true })]).toEqual(ids);
  });

  it('has what stands around a text and between two', () => {
    expect([...own.encode('The owl.', { bos: true, eos: true })]).toEqual(fixture.whole[0]?.[1]);
    expect(own.betweenIds).toEqual(tokenizer.betweenIds);
  });
});

describe('a Unigram tokenizer', () => {
  it.each(fixture.cases)('encodes %j as the reference does', (text, ids) => {
    expect([...tokenizer.encode(text, { special: true })]).toEqual(ids);
  });

  it.each(fixture.whole)('surrounds %j', (text, ids) => {
    expect([...tokenizer.encode(text, { special: true, bos: true, eos: true })]).toEqual(ids);
  });

  it.each(fixture.pairs)('knows what stands between %j and %j', (first, second, ids) => {
    const begun = tokenizer.encode(first, { bos: true, eos: true });
    const ended = tokenizer.encode(second, { eos: true });
    expect([...begun, ...tokenizer.betweenIds, ...ended]).toEqual(ids);
  });

  it('shows what it has encoded', () => {
    expect(tokenizer.decode(tokenizer.encode('The owl is awake.'))).toBe('The owl is awake.');
  });

  it('takes a long piece in steps, to the same tokens', () => {
    const ids = new Map([
      ['a', 1],
      ['aa', 2],
      ['b', 3],
    ]);
    const encode = unigramEncoder({ ids, scores: [0, -2, -3, -1], unknownId: 0 });
    const piece = 'aab'.repeat(10_000);
    const found: number[] = [];
    const steps = encode(piece, found);
    let count = 0;
    while (steps !== undefined && steps.next().done !== true) count++;
    expect(count).toBeGreaterThan(2);
    expect(found.length).toBe(20_000);
    expect(found.slice(0, 4)).toEqual([2, 3, 2, 3]);
  });

  it('writes what it does not know as one token, or as bytes where it has them', () => {
    const ids = new Map([['a', 1]]);
    const scores = [0, -1];
    const encoded = (byteIds?: ReadonlyMap<string, number>) => {
      const into: number[] = [];
      const rest = unigramEncoder({ ids, scores, unknownId: 0, byteIds })('aé☃a', into);
      if (rest !== undefined) finish(rest);
      return into;
    };
    expect(encoded()).toEqual([1, 0, 1]);
    const bytes = Array.from({ length: 256 }, (_, byte) => {
      return [`<0x${byte.toString(16).toUpperCase().padStart(2, '0')}>`, 100 + byte] as const;
    });
    expect(encoded(new Map(bytes))).toEqual([1, ...[...Buffer.from('é☃')].map((byte) => 100 + byte), 1]);
  });

  it.each([
    [new Uint8Array(2)],
    [Uint8Array.of(255, 255, 255, 255, 0)],
    [Uint8Array.of(3, 0, 0, 0, 1, 2, 3)],
  ])('has no map of characters in %j', (bytes) => expect(charsmapNormalizer(bytes)).toBeUndefined());
});
