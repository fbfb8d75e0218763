// GGUF metadata to tokenizer: SentencePiece against Google's implementation, and the rules around it.

import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  byteLevelGguf,
  ggufMetadata,
  sentencePiece,
  sentencePieceGguf,
} from '../../test/fixtures/tokenizers/tokenizer-fixtures.ts';
import { ggufTokenizer } from './gguf-tokenizer.ts';

const anyText = fc.string({ unit: 'binary', maxLength: 60 });

describe('SentencePiece from GGUF', () => {
  const tokenizer = ggufTokenizer(ggufMetadata(sentencePieceGguf()));

  it.each(sentencePiece.cases.filter(({ text }) => !text.includes('<mark>')))(
    'gives the reference ids for $text',
    ({ text, ids }) => {
      expect([...tokenizer.encode(text)]).toEqual(ids);
    },
  );

  it('cuts out user-defined tokens always and control tokens on request', () => {
    const [mark, end] = ['<mark>', '<end_of_turn>'].map((token) => sentencePiece.tokens.indexOf(token));
    expect([...tokenizer.encode('<mark>')]).toEqual([mark]);
    expect([...tokenizer.encode('<end_of_turn>', { special: true })]).toEqual([end]);
    expect([...tokenizer.encode('<end_of_turn>')]).not.toContain(end);
    expect([...tokenizer.encode('</s>')]).not.toContain(2);
  });

  it('has BOS in front unless the file says otherwise', () => {
    expect([...tokenizer.encode('', { bos: true })]).toEqual([1]);
    const without = ggufTokenizer(ggufMetadata({ ...sentencePieceGguf(), 'ggml.add_bos_token': false }));
    expect([...without.encode('', { bos: true })]).toEqual([]);
  });

  it('ends at EOS and at the end of a turn', () => {
    expect([...tokenizer.eosIds].sort()).toEqual([2, sentencePiece.tokens.indexOf('<end_of_turn>')]);
  });

  it('puts no space in front where the file says so', () => {
    const gemma = ggufTokenizer(ggufMetadata({ ...sentencePieceGguf(), 'ggml.add_space_prefix': false }));
    expect(gemma.stripsLeadingSpace).toBe(false);
    expect([...gemma.encode(' The lift')]).toEqual([...tokenizer.encode('The lift')]);
    fc.assert(fc.property(anyText, (text) => gemma.decode(gemma.encode(text)) === text.replaceAll('▁', ' ')));
  });

  it('decodes what it encoded', () => {
    fc.assert(
      fc.property(anyText, (text) => tokenizer.decode(tokenizer.encode(text)) === text.replaceAll('▁', ' ')),
    );
  });

  it('refuses scores that do not fit the tokens', () => {
    const metadata = ggufMetadata({ ...sentencePieceGguf(), 'ggml.scores': new Float32Array(3) });
    expect(() => ggufTokenizer(metadata)).toThrow(/tokenizer\.ggml\.scores: has 3 entries for 700 tokens/);
  });
});

describe('SentencePiece with merges from GGUF', () => {
  /** Every way to make a token of two, the best-scored token first. */
  function mergesOf(tokens: readonly string[], scores: ArrayLike<number>): string[] {
    const known = new Set(tokens);
    const ranked = [...tokens.keys()].toSorted(
      (a, b) => (scores[b] as number) - (scores[a] as number) || a - b,
    );
    return ranked.flatMap((id) => {
      const characters = [...(tokens[id] as string)];
      const ways = characters
        .slice(1)
        .map((_, at) => [characters.slice(0, at + 1), characters.slice(at + 1)]);
      const pairs = ways.map((way) => way.map((half) => half.join('')));
      return pairs.filter((pair) => pair.every((half) => known.has(half))).map((pair) => pair.join(' '));
    });
  }

  const spm = { ...sentencePieceGguf(), 'ggml.add_space_prefix': false };
  const merged = {
    ...spm,
    'ggml.model': 'gemma4',
    'ggml.merges': mergesOf(sentencePiece.tokens, sentencePiece.scores),
  };
  const byScore = ggufTokenizer(ggufMetadata(spm));
  const byRank = ggufTokenizer(ggufMetadata(merged));

  it.each(sentencePiece.cases)('gives the ids that scores give for $text', ({ text }) => {
    expect([...byRank.encode(text)]).toEqual([...byScore.encode(text)]);
  });

  it('decodes what it encoded', () => {
    fc.assert(
      fc.property(anyText, (text) => byRank.decode(byRank.encode(text)) === text.replaceAll('▁', ' ')),
    );
  });

  it('has BOS in front where the file names one', () => {
    const named = ggufTokenizer(ggufMetadata({ ...merged, 'ggml.bos_token_id': 1 }));
    expect([...named.encode('', { bos: true })]).toEqual([1]);
    expect([...byRank.encode('', { bos: true })]).toEqual([]);
  });
});

describe('byte-level BPE from GGUF', () => {
  const extra = ['<|endoftext|>', '<|im_end|>', '<|user|>'];
  const entries = byteLevelGguf('qwen2', extra);
  const tokenizer = ggufTokenizer(ggufMetadata(entries));
  const firstExtra = tokenizer.vocabSize - extra.length;

  it('decodes what it encoded, lone surrogates as U+FFFD', () => {
    fc.assert(fc.property(anyText, (text) => tokenizer.decode(tokenizer.encode(text)) === text));
    expect(tokenizer.decode(tokenizer.encode('a\ud800b'))).toBe('a\ufffdb');
  });

  it('finds control tokens on request only, and leaves them out of decoded text', () => {
    const ids = tokenizer.encode('Hi<|im_end|>', { special: true });
    expect(ids.at(-1)).toBe(firstExtra + 1);
    expect(tokenizer.decode(ids)).toBe('Hi');
    expect(tokenizer.decode(ids, { special: true })).toBe('Hi<|im_end|>');
    expect(tokenizer.decode(tokenizer.encode('Hi<|im_end|>'))).toBe('Hi<|im_end|>');
  });

  it('describes itself', () => {
    expect(tokenizer.kind).toBe('byte-level BPE, qwen2 pre-tokenizer, 1,203 tokens');
  });

  it('takes the default rule where the file names none, and only there', () => {
    const { 'ggml.pre': _, ...unnamed } = byteLevelGguf('default');
    const implied = ggufTokenizer(ggufMetadata(unnamed));
    const named = ggufTokenizer(ggufMetadata(byteLevelGguf('default')));
    expect(implied.encode('x1234, y')).toEqual(named.encode('x1234, y'));
  });

  it('lets Phi-3’s control tokens swallow the whitespace after them', () => {
    const gguf = ggufMetadata(entries);
    gguf.metadata.set('general.name', 'Phi-3 mini');
    const phi = ggufTokenizer(gguf);
    expect([...phi.encode('<|user|>\n\n', { special: true })]).toEqual([firstExtra + 2]);
    expect(phi.encode('<|endoftext|>\n', { special: true })).toHaveLength(2);
  });

  it('declares EOS beside the tokens that end a turn', () => {
    const gguf = ggufMetadata({ ...entries, 'ggml.eos_token_id': 7, 'ggml.bos_token_id': 0xffffffff });
    const tokenizerWithEos = ggufTokenizer(gguf);
    expect([...tokenizerWithEos.eosIds].sort()).toEqual([firstExtra, firstExtra + 1, 7].sort());
    expect(tokenizerWithEos.bosId).toBeUndefined();
  });

  it('gives no bytes for an id without a token', () => {
    expect(tokenizer.tokenBytes(999_999)).toHaveLength(0);
    expect(tokenizer.decode([999_999])).toBe('');
  });

  it.each(['rwkv', 'plamo2', 'no_vocab'])('refuses the tokenizer model %s by name', (model) => {
    expect(() => ggufTokenizer(ggufMetadata({ ...entries, 'ggml.model': model }))).toThrow(
      `"${model}" is not supported`,
    );
  });

  it('refuses an id outside the vocabulary', () => {
    const gguf = ggufMetadata({ ...entries, 'ggml.eos_token_id': 5000 });
    expect(() => ggufTokenizer(gguf)).toThrow(/eos_token_id: is 5000, but the vocabulary has 1203 tokens/);
  });
});
