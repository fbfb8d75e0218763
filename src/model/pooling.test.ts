import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { memoryWeights } from '../../test/support/memory-weights.ts';
import { tinyModel } from '../../test/support/tiny-model.ts';
import type { GgufFile } from '../weights/gguf.ts';
import type { SafetensorsModel } from '../weights/open-model.ts';
import { modelPooling } from './pooling.ts';
import type { ModelSpec } from './spec.ts';

const root = mkdtempSync(join(tmpdir(), 'chairlift-pooling-'));
afterAll(() => rmSync(root, { recursive: true }));

const steps = (...kinds: string[]) =>
  kinds.map((kind, idx) => ({
    idx,
    name: String(idx),
    path: idx === 0 ? '' : `${idx}_${kind}`,
    type: `sentence_transformers.models.${kind}`,
  }));

const { spec: causal } = tinyModel({ hiddenSize: 64 });
const { spec: encoder } = tinyModel({ hiddenSize: 64, bidirectional: true });

let folders = 0;

/** A folder of the sentence-transformers library, as far as pooling goes. */
function folder(modules: unknown, pooling?: object, config: object = {}, spec: ModelSpec = causal) {
  const directory = join(root, String(folders++));
  mkdirSync(join(directory, '1_Pooling'), { recursive: true });
  if (modules !== undefined) writeFileSync(join(directory, 'modules.json'), JSON.stringify(modules));
  if (pooling !== undefined) {
    writeFileSync(join(directory, '1_Pooling', 'config.json'), JSON.stringify(pooling));
  }
  const weights = memoryWeights([]);
  return modelPooling({ format: 'safetensors', directory, config, weights } as SafetensorsModel, spec);
}

function gguf(metadata: Record<string, string | number | boolean>, spec: ModelSpec = causal) {
  const entries = Object.entries({ 'general.architecture': 'qwen3', ...metadata });
  const file = { format: 'gguf', path: 'm.gguf', metadata: new Map(entries), weights: memoryWeights([]) };
  return modelPooling(file as unknown as GgufFile, spec);
}

const undeclared = { possible: true, pooling: 'last', declared: false };
const declared = (pooling: string) => ({ possible: true, pooling, declared: true });
const usual = steps('Transformer', 'Pooling', 'Normalize');

describe('the pooling of a folder', () => {
  it.each([
    ['pooling_mode_mean_tokens', 'mean'],
    ['pooling_mode_cls_token', 'cls'],
    ['pooling_mode_lasttoken', 'last'],
  ])('is the one that %s switches on', (name, pooling) => {
    const switches = {
      word_embedding_dimension: 64,
      pooling_mode_mean_tokens: false,
      pooling_mode_cls_token: false,
      pooling_mode_lasttoken: false,
      pooling_mode_max_tokens: false,
      include_prompt: true,
    };
    expect(folder(usual, { ...switches, [name]: true })).toEqual(declared(pooling));
  });

  it('may be written by its name', () => {
    expect(folder(usual, { pooling_mode: 'lasttoken' })).toEqual(declared('last'));
  });

  it('is the last token where nothing is said', () => {
    expect(folder(undefined)).toEqual(undeclared);
    expect(folder(steps('Transformer'))).toEqual(undeclared);
  });

  it.each([
    [{ pooling_mode_max_tokens: true }, 'max'],
    [{ pooling_mode_mean_tokens: true, pooling_mode_cls_token: true }, 'mean and cls'],
    [{}, 'none'],
  ])('is not possible by %j, and says so', (settings, named) => {
    expect(folder(usual, settings)).toEqual({
      possible: false,
      problem: `pools in a way that is not supported: ${named}`,
    });
  });

  it('is the mean where nothing is said and tokens see both sides', () => {
    expect(folder(undefined, undefined, {}, encoder)).toEqual({ ...undeclared, pooling: 'mean' });
    const config = { use_bidirectional_attention: true };
    expect(folder(usual, { pooling_mode_cls_token: true }, config, encoder)).toEqual(declared('cls'));
  });

  it('is not possible where texts are ranked by a head', () => {
    const config = { architectures: ['BertForSequenceClassification'] };
    expect(folder(undefined, undefined, config, encoder)).toMatchObject({ possible: false });
  });

  it('is not possible where a further step follows, or tokens see later ones', () => {
    const odd = folder(steps('Transformer', 'Pooling', 'CNN', 'Normalize'), {
      pooling_mode_mean_tokens: true,
    });
    expect(odd).toMatchObject({ possible: false, problem: expect.stringContaining('CNN') });
    for (const config of [{ use_bidirectional_attention: true }, { is_causal: false }]) {
      const pooling = folder(usual, { pooling_mode_mean_tokens: true }, config);
      expect(pooling).toMatchObject({ possible: false, problem: expect.stringContaining('later ones') });
    }
  });
});

describe('the pooling of a GGUF file', () => {
  it('is the mean where nothing is said and tokens see both sides', () => {
    expect(gguf({ 'qwen3.attention.causal': false }, encoder)).toEqual({ ...undeclared, pooling: 'mean' });
  });

  it.each([
    [0, undeclared],
    [1, declared('mean')],
    [2, declared('cls')],
    [3, declared('last')],
  ])('of type %i', (type, expected) => {
    expect(gguf({ 'qwen3.pooling_type': type })).toEqual(expected);
  });

  it('is the last token where nothing is said', () => expect(gguf({})).toEqual(undeclared));

  it('is not possible where it ranks, is not known, or tokens see later ones', () => {
    expect(gguf({ 'qwen3.pooling_type': 4 })).toMatchObject({ possible: false });
    expect(gguf({ 'qwen3.pooling_type': 9 })).toMatchObject({ possible: false });
    expect(gguf({ 'qwen3.attention.causal': false, 'qwen3.pooling_type': 1 })).toMatchObject({
      possible: false,
    });
  });
});
