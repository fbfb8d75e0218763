import { expect, it } from 'vitest';
import type { ModelEntry, ModelPool } from '../../pool/model-pool.ts';
import { LineCheck } from '../batches/line-check.ts';
import { findEntry } from './find-model.ts';

const poolOf = (...names: string[]) => aliasedPool(...names.map((name) => [name]));
const aliasedPool = (...models: string[][]) =>
  ({
    list: () => models.map(([name, ...aliases]) => ({ name, aliases }) as unknown as ModelEntry),
  }) as unknown as ModelPool;

it('gives the first model where none is named', () => {
  expect(findEntry(poolOf('one', 'two'), undefined).name).toBe('one');
});

it('calls the first model default, unless another has that name', () => {
  expect(findEntry(poolOf('one', 'two'), 'default').name).toBe('one');
  expect(findEntry(aliasedPool(['one'], ['two', 'default']), 'default').name).toBe('two');
});

it('serves names that no model has by the one whose alias is *', () => {
  const pool = aliasedPool(['one'], ['two', '*']);
  expect(findEntry(pool, 'gpt-5').name).toBe('two');
  expect(findEntry(pool, 'one').name).toBe('one');
  expect(findEntry(pool, undefined).name).toBe('one');
  expect(findEntry(pool, 'default').name).toBe('one');
});

it('finds what came from the hub by every spelling of its repository', () => {
  const entry = (name: string, path: string) => ({ name, aliases: [], path }) as unknown as ModelEntry;
  const models = [
    entry('tiny', '/home/models/ann/tiny-GGUF/tiny-Q4_K_M.gguf'),
    entry('big', '/cache/hub/models--Ann--Big/snapshots/abc'),
    entry('two:a-Q4_0', '/home/models/ann/two/a-Q4_0.gguf'),
    entry('two:a-Q8_0', '/home/models/ann/two/a-Q8_0.gguf'),
    { ...entry('tiny:story', '/home/models/ann/tiny-GGUF/tiny-Q4_K_M.gguf'), adapterOf: 'tiny' },
  ];
  const pool = { list: () => models } as unknown as ModelPool;
  const found = (name: string) => findEntry(pool, name).name;
  for (const name of ['ann/tiny-GGUF', 'hf:ann/tiny-GGUF:Q4_K_M', 'hf.co/Ann/tiny-gguf:latest'])
    expect(found(name)).toBe('tiny');
  expect(found('https://huggingface.co/ann/big')).toBe('big');
  expect(found('ann/two:Q8_0')).toBe('two:a-Q8_0');
  expect(findEntry(poolOf('ann/tiny:Q8_0'), 'hf.co/ann/tiny:Q8_0').name).toBe('ann/tiny:Q8_0');
  for (const name of ['ann/two', 'ann/tiny-GGUF:Q8_0', 'bob/tiny-GGUF'])
    expect(() => found(name)).toThrow(/404|does not exist|not/);
});

it('refuses a model that does not exist for good, and says what does', () => {
  expect(() => findEntry(poolOf('one'), 'other')).toThrow(
    expect.objectContaining({
      status: 404,
      code: 'model_not_found',
      message: expect.stringMatching(/'default'.*--alias '\*=NAME'/),
    }),
  );
});

it('asks to try again where no model is known yet, as in a gateway that has just started', () => {
  for (const name of [undefined, 'one']) {
    expect(() => findEntry(poolOf(), name)).toThrow(
      expect.objectContaining({ status: 503, code: 'no_models', headers: { 'retry-after': '2' } }),
    );
  }
});

it('refuses no line of a batch for its model where none is known yet', () => {
  const line = JSON.stringify({
    custom_id: 'a',
    method: 'POST',
    url: '/v1/completions',
    body: { model: 'one' },
  });
  expect(new LineCheck('/v1/completions', poolOf()).check({ number: 1, text: line })).toMatchObject({
    ok: true,
  });
  expect(new LineCheck('/v1/completions', poolOf('other')).check({ number: 1, text: line })).toMatchObject({
    ok: false,
  });
});
