import { describe, expect, it } from 'vitest';
import { describeAdapter } from './gpu.ts';

type Adapter = Parameters<typeof describeAdapter>[0];

function adapterOf(vendor: string, architecture: string): Adapter {
  const info = { vendor, architecture, device: '', description: 'A GPU', isFallbackAdapter: false };
  const limits = {
    maxBufferSize: 1,
    maxStorageBufferBindingSize: 1,
    maxComputeWorkgroupStorageSize: 1,
    maxComputeInvocationsPerWorkgroup: 1,
  };
  return { info, limits, features: new Set() } as unknown as Adapter;
}

describe('a GPU', () => {
  it.each([
    ['apple', 'common-3', true],
    ['intel', 'gen-12lp', true],
    ['intel', 'xe-2lpg', true],
    ['intel', 'xe-2hpg', false],
    ['nvidia', 'hopper', false],
    ['amd', 'rdna-3', false],
  ])('of %s, %s, shares the machine’s memory: %s', (vendor, architecture, unified) => {
    expect(describeAdapter(adapterOf(vendor, architecture)).unified).toBe(unified);
  });
});
