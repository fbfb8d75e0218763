import { describe, expect, it } from 'vitest';
import { gpuMemoryLimit } from './gpu-memory-limit.ts';

const GB = 2 ** 30;
const mac = (memoryBytes: number, setting: string | undefined) =>
  gpuMemoryLimit({ platform: 'darwin', memoryBytes, setting: () => setting });

describe('what a Mac lets its GPU have', () => {
  it('is two thirds of its memory, and three quarters of much', () => {
    expect(mac(24 * GB, '0')).toBe(16 * GB);
    expect(mac(64 * GB, undefined)).toBe(48 * GB);
  });

  it('is what its owner has set, and never more than there is', () => {
    expect(mac(24 * GB, '20480')).toBe(20 * GB);
    expect(mac(24 * GB, '65536')).toBe(24 * GB);
  });

  it('is not known elsewhere', () => {
    expect(gpuMemoryLimit({ platform: 'linux', memoryBytes: GB, setting: () => '1' })).toBeUndefined();
  });
});
