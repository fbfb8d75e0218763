import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  byteLevelGguf,
  ggufMetadata,
  sentencePieceGguf,
} from '../../test/fixtures/tokenizers/tokenizer-fixtures.ts';
import { Detokenizer } from './detokenizer.ts';
import { ggufTokenizer } from './gguf-tokenizer.ts';
import type { Tokenizer } from './tokenizer.ts';

const tokenizers: readonly (readonly [string, Tokenizer])[] = [
  ['byte-level BPE', ggufTokenizer(ggufMetadata(byteLevelGguf('qwen2', ['<|im_end|>'])))],
  ['SentencePiece', ggufTokenizer(ggufMetadata(sentencePieceGguf()))],
];

describe.each(tokenizers)('a detokenizer of %s', (_, tokenizer) => {
  const anyIds = fc.array(fc.nat(tokenizer.vocabSize + 2), { maxLength: 40 });
  // Ids below 262 are mostly single bytes: rarely whole characters.
  const byteIds = fc.array(fc.nat(262), { maxLength: 40 });

  it.each([true, false])('emits in pieces what decoding gives at once, control tokens %s', (special) => {
    fc.assert(
      fc.property(fc.oneof(anyIds, byteIds), (ids) => {
        const detokenizer = new Detokenizer(tokenizer, { special });
        const text = ids.map((id) => detokenizer.push(id)).join('') + detokenizer.flush();
        expect(text).toBe(tokenizer.decode(ids, { special }));
      }),
      { numRuns: 500 },
    );
  });

  it('never emits half a character of well-formed text', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary', maxLength: 20 }), (text) => {
        const detokenizer = new Detokenizer(tokenizer);
        const pieces = [...tokenizer.encode(text)].map((id) => detokenizer.push(id));
        expect(pieces.join('') + detokenizer.flush()).toBe(
          text.replaceAll('▁', tokenizer.stripsLeadingSpace ? ' ' : '▁'),
        );
        for (const piece of pieces) {
          expect(piece).not.toMatch(/\p{Surrogate}/u);
          if (!text.includes('\ufffd')) expect(piece).not.toContain('\ufffd');
        }
      }),
    );
  });
});

describe('a detokenizer', () => {
  const [, tokenizer] = tokenizers[1] as readonly [string, Tokenizer];

  it('holds a character back until its last byte', () => {
    const detokenizer = new Detokenizer(tokenizer, { continuation: true });
    const bytes = [...Buffer.from('🚡')].map(
      (byte) =>
        [...Array(700).keys()].find(
          (id) => tokenizer.tokenText(id) === `<0x${byte.toString(16).toUpperCase()}>`,
        ) as number,
    );
    expect(bytes.map((id) => detokenizer.push(id))).toEqual(['', '', '', '🚡']);
  });

  it('shows an unfinished character as U+FFFD in the end', () => {
    const detokenizer = new Detokenizer(tokenizer);
    const half = [...Array(700).keys()].find((id) => tokenizer.tokenText(id) === '<0xE4>') as number;
    expect(detokenizer.push(half) + detokenizer.flush()).toBe('\ufffd');
  });

  it('keeps the space before the first word where the text continues another', () => {
    const ids = [...tokenizer.encode('lift')];
    const textOf = (continuation: boolean): string => {
      const detokenizer = new Detokenizer(tokenizer, { continuation });
      return ids.map((id) => detokenizer.push(id)).join('');
    };
    expect(textOf(false)).toBe('lift');
    expect(textOf(true)).toBe(' lift');
  });
});
