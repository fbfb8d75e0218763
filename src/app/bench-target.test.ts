import { describe, expect, it } from 'vitest';
import type { ProbeResult } from '../compute/webgpu/probe.ts';
import { benchBackend } from './bench-target.ts';
import { chooseGpu } from './gpu-choice.ts';

const limits = { bufferBytes: 1, bindingBytes: 1, workgroupBytes: 1, workgroupThreads: 1 };
const gpu = (software: boolean): ProbeResult => ({
  found: true,
  info: { name: 'Some GPU', software, unified: false, features: [], limits },
  memoryBytes: 8e9,
});
const unifiedLimit = () => undefined;
const searches = [
  { found: 'a hardware GPU', result: gpu(false), likely: true },
  { found: 'a software GPU', result: gpu(true), likely: true },
  { found: 'none', result: { found: false, reason: 'no driver' } as const, likely: true },
  { found: 'nothing that makes one likely', result: gpu(false), likely: false },
];

describe('a benchmark without a server', () => {
  it.each(searches)('measures what serve would compute with, where there is $found', async (one) => {
    const search = { isLikely: async () => one.likely, probe: async () => one.result, unifiedLimit };
    const served = await chooseGpu({ backend: undefined, gpu: undefined }, search);
    expect(await benchBackend({}, search)).toBe(served.backend ?? 'cpu');
  });

  it('measures what it is told to, wherever that is', async () => {
    const search = { isLikely: async () => true, probe: async () => gpu(false), unifiedLimit };
    expect(await benchBackend({ backend: 'cpu' }, search)).toBe('cpu');
    expect(await benchBackend({ backend: 'webgpu' }, search)).toBe('webgpu');
    expect(await benchBackend({ gpu: 'Some GPU' }, search)).toBe('webgpu');
  });
});
