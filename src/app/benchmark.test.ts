import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { hasAddon } from '../../test/support/native.ts';
import { type BenchmarkOptions, benchmark } from './benchmark.ts';

const quick = { prompts: [8], concurrencies: [2], tokens: 2, repeats: 1, threads: 1 } as const;

describe.skipIf(!hasAddon)('benchmark() (needs the addon)', () => {
  it('compares one by one with batched on the embedded model and tells what it does', async () => {
    const phases: string[] = [];
    const report = await benchmark({ ...quick, onPhase: (text) => phases.push(text) });
    expect(report).toMatchObject({ benchmark: 'comparison', outputTokens: 2, repeats: 1, mismatches: [] });
    expect(report.results).toHaveLength(1);
    expect(report.results[0]).toMatchObject({ promptTokens: 8, concurrency: 2, requests: 4 });
    expect(phases).toHaveLength(3);
  });

  it('ends with the reason of its signal', async () => {
    const reason = new Error('no time');
    await expect(benchmark({ ...quick, signal: AbortSignal.abort(reason) })).rejects.toBe(reason);
  });

  it.each<[string, BenchmarkOptions, string, RegExp]>([
    [
      'an unknown option',
      { ...quick, streams: [1] } as object,
      'invalid_value',
      /^streams: .*no such option/,
    ],
    ['a wrong value', { ...quick, repeats: 0 }, 'invalid_value', /^repeats: give whole numbers from 1/],
    ['prompts beyond the context', { ...quick, prompts: [5000] }, 'invalid_value', /^prompts: 5000 tokens/],
    [
      'a model that is not there',
      { ...quick, path: join(tmpdir(), 'missing.gguf') },
      'model_load_failed',
      /missing\.gguf/,
    ],
  ])('refuses %s', async (_, options, code, message) => {
    await expect(benchmark(options)).rejects.toMatchObject({
      name: 'ChairliftError',
      code,
      message: expect.stringMatching(message),
    });
  });
});
