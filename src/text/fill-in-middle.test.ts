import { describe, expect, it } from 'vitest';
import { fillInMiddleOf } from './fill-in-middle.ts';

const vocabulary = (...tokens: string[]) => ({
  vocabSize: tokens.length,
  tokenText: (id: number) => tokens[id],
});

describe('tokens around a gap', () => {
  it.each([
    [
      ['a', '<|fim_prefix|>', '<|fim_middle|>', '<|fim_suffix|>', '<|file_sep|>'],
      [1, 3, 2, 4],
    ],
    [
      ['<fim_prefix>', '<fim_middle>', '<fim_suffix>'],
      [0, 2, 1, undefined],
    ],
    [
      ['▁<PRE>', '▁<MID>', '▁<SUF>', '▁<EOT>'],
      [0, 2, 1, undefined],
    ],
    [
      ['<｜fim▁hole｜>', '<｜fim▁begin｜>', '<｜fim▁end｜>'],
      [1, 0, 2, undefined],
    ],
    [
      ['[SUFFIX]', '[PREFIX]'],
      [1, 0, undefined, undefined],
    ],
  ])('are known by their spelling: %j', (tokens, [prefix, suffix, middle, file]) => {
    expect(fillInMiddleOf(vocabulary(...tokens))).toMatchObject({ prefix, suffix, middle, file });
  });

  it('are those that a file declares, by new keys or old ones', () => {
    const tokens = vocabulary('a', 'b', 'c', 'd');
    const declared = (entries: Record<string, number>) =>
      fillInMiddleOf(tokens, (key) => entries[key.replace('tokenizer.ggml.', '')]);
    const newer = { fim_pre_token_id: 3, fim_suf_token_id: 2, fim_mid_token_id: 1, fim_sep_token_id: 0 };
    expect(declared(newer)).toMatchObject({ prefix: 3, suffix: 2, middle: 1, file: 0 });
    const older = { prefix_token_id: 0, suffix_token_id: 2, middle_token_id: 1 };
    expect(declared(older)).toMatchObject({ prefix: 0, suffix: 2, middle: 1 });
    expect(declared({ ...older, suffix_token_id: 0xffffffff })).toBeUndefined();
  });

  it('are missing where a model was not trained with them', () => {
    expect(fillInMiddleOf(vocabulary('a', '<|fim_prefix|>'))).toBeUndefined();
  });
});
