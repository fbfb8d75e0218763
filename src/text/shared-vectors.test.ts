// Tokenizer vocabularies of real models, with the ids that another implementation gave for each text.

import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { gunzipSync } from 'node:zlib';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { hasTestdata, testdata } from '../../test/support/testdata.ts';
import { openGguf } from '../weights/gguf.ts';
import { ggufTokenizer } from './gguf-tokenizer.ts';
import type { Tokenizer } from './tokenizer.ts';

const vocabularies = ['llama-bpe', 'qwen2', 'gpt-2', 'llama-spm', 'phi-3'];

describe.skipIf(!hasTestdata)('shared tokenizer vectors (skipped where shared test data is absent)', () => {
  let directory: string;
  beforeAll(() => {
    directory = mkdtempSync(join(tmpdir(), 'chairlift-tokenizers-'));
  });
  afterAll(() => rmSync(directory, { recursive: true }));

  describe.each(vocabularies)('%s', (name) => {
    let tokenizer: Tokenizer;
    beforeAll(() => {
      const path = join(directory, `${name}.gguf`);
      writeFileSync(path, gunzipSync(readFileSync(testdata('tokenizers', `${name}.gguf.gz`))));
      const gguf = openGguf(path);
      tokenizer = ggufTokenizer(gguf);
      gguf.weights.close();
    });

    it('gives the reference ids for every text', () => {
      const texts = readTexts(name);
      const expected = readIds(name);
      expect(expected.length).toBeGreaterThan(40);
      expect(texts.map((text) => [...tokenizer.encode(text)])).toEqual(expected);
    });

    it('decodes its ids to the text again', () => {
      const texts = readTexts(name);
      expect(texts.map((text) => tokenizer.decode(tokenizer.encode(text)))).toEqual(texts);
    });
  });
});

function readTexts(name: string): string[] {
  const texts = readFileSync(testdata('tokenizers', `${name}.inp`), 'utf8').split('\n__ggml_vocab_test__\n');
  return texts.slice(0, readIds(name).length);
}

function readIds(name: string): number[][] {
  const lines = readFileSync(testdata('tokenizers', `${name}.out`), 'utf8')
    .replace(/\n$/, '')
    .split('\n');
  return lines.map((line) => line.trim().split(/\s+/).filter(Boolean).map(Number));
}
