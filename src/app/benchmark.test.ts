import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { hasAddon } from '../../test/support/native.ts';
import type { ProbeResult } from '../compute/webgpu/probe.ts';
import { benchBackend } from './bench-target.ts';
import { type BenchmarkOptions, benchmark } from './benchmark.ts';
import { chooseGpu } from './gpu-choice.ts';

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

const limits = { bufferBytes: 1, bindingBytes: 1, workgroupBytes: 1, workgroupThreads: 1 };
const gpu = (software: boolean): ProbeResult => ({
  found: true,
  info: { name: 'Some GPU', software, unified: false, features: [], limits },
  memoryBytes: 8e9,
});
const unifiedLimit = () => undefined;
const noCuda = {
  isNvidiaLikely: () => false,
  probeCuda: async () => ({ found: false, reason: 'no driver' }) as const,
};
const searches = [
  { found: 'a hardware GPU', result: gpu(false), likely: true },
  { found: 'a software GPU', result: gpu(true), likely: true },
  { found: 'none', result: { found: false, reason: 'no driver' } as const, likely: true },
  { found: 'nothing that makes one likely', result: gpu(false), likely: false },
];

describe('a benchmark without a server', () => {
  it.each(searches)('measures what serve would compute with, where there is $found', async (one) => {
    const search = {
      isLikely: async () => one.likely,
      probe: async () => one.result,
      unifiedLimit,
      ...noCuda,
    };
    const served = await chooseGpu({ backend: undefined, gpu: undefined }, search);
    expect(await benchBackend({}, search)).toBe(served.backend ?? 'cpu');
  });

  it('measures what it is told to, wherever that is', async () => {
    const search = { isLikely: async () => true, probe: async () => gpu(false), unifiedLimit, ...noCuda };
    expect(await benchBackend({ backend: 'cpu' }, search)).toBe('cpu');
    expect(await benchBackend({ backend: 'webgpu' }, search)).toBe('webgpu');
    expect(await benchBackend({ backend: 'cuda' }, search)).toBe('cuda');
    expect(await benchBackend({ gpu: 'Some GPU' }, search)).toBe('webgpu');
  });
});
