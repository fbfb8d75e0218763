// Every pre-tokenizer family, through GGUF names and through tokenizer.json, against Hugging Face tokenizers.

import { describe, expect, it } from 'vitest';
import {
  byteLevel,
  byteLevelGguf,
  families,
  ggufMetadata,
  texts,
} from '../../test/fixtures/tokenizers/tokenizer-fixtures.ts';
import { ggufTokenizer } from './gguf-tokenizer.ts';
import { namedPreTokenizer, preTokenizerNames } from './pre-tokenizers.ts';
import { jsonTokenizer } from './tokenizer-json/tokenizer-json.ts';

const named = Object.entries(families).filter(([name]) => preTokenizerNames.includes(name));

describe.each(named)('the %s family', (name, family) => {
  it('gives the reference ids by its GGUF name', () => {
    const tokenizer = ggufTokenizer(ggufMetadata(byteLevelGguf(name)));
    expect(encodeAll(tokenizer)).toEqual(expectedIds(family.ids));
  });

  it('leaves no character out, also of long runs of one kind', () => {
    const split = namedPreTokenizer(name)?.split;
    const runs = [' ', '\n', ' \n', 'a', 'A', '7', '!', '中', '\u0301', ' a'];
    for (const text of [...texts.slice(1), ...runs.map((run) => `${run.repeat(20_000 / run.length)}中x`)]) {
      expect([...(split?.(text) ?? [])].join('')).toBe(text);
    }
  });
});

it.each(Object.entries(families))(
  'a tokenizer.json with the steps of %s gives the reference ids',
  (_, family) => {
    const tokenizer = jsonTokenizer({
      path: 'tokenizer.json',
      tokenizer: {
        model: { type: 'BPE', ...byteLevel, ignore_merges: family.ignoreMerges },
        pre_tokenizer: family.preTokenizer,
        decoder: { type: 'ByteLevel' },
      },
    });
    expect(encodeAll(tokenizer)).toEqual(expectedIds(family.ids));
  },
);

describe('pre-tokenizer names', () => {
  it('are each known once', () => {
    expect(new Set(preTokenizerNames).size).toBe(preTokenizerNames.length);
    for (const name of preTokenizerNames) expect(namedPreTokenizer(name)).toBeDefined();
  });

  it('include every family in common use', () => {
    const common = ['llama-bpe', 'qwen2', 'gpt-2', 'smollm', 'deepseek-llm', 'deepseek-coder', 'deepseek-v3'];
    const more = [
      'starcoder',
      'refact',
      'falcon',
      'tekken',
      'gpt-4o',
      'command-r',
      'phi-2',
      'olmo',
      'default',
    ];
    expect(preTokenizerNames).toEqual(expect.arrayContaining([...common, ...more]));
  });

  it('are an error that names them where unknown', () => {
    expect(() => ggufTokenizer(ggufMetadata(byteLevelGguf('martian-bpe')))).toThrow(
      /tokenizer\.ggml\.pre: the pre-tokenizer "martian-bpe" is not known\. Known ones: .*qwen2/,
    );
  });
});

function encodeAll(tokenizer: { encode(text: string): Int32Array }): Record<string, number[]> {
  return Object.fromEntries(texts.map((text) => [text, [...tokenizer.encode(text)]]));
}

function expectedIds(ids: readonly (readonly number[])[]): Record<string, readonly number[]> {
  return Object.fromEntries(texts.map((text, index) => [text, ids[index] as readonly number[]]));
}
