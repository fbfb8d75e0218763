import { describe, expect, it } from 'vitest';
import { poolBlockCount } from './pool-size.ts';

describe('poolBlockCount', () => {
  it('takes a count as it is, and as many blocks as fit a memory budget', () => {
    expect(poolBlockCount({ kind: 'blocks', count: 64 })).toBe(64);
    expect(poolBlockCount({ kind: 'memory', bytes: 10_000, bytesPerBlock: 3000 })).toBe(3);
  });

  it('refuses what holds no block, with the numbers', () => {
    expect(() => poolBlockCount({ kind: 'memory', bytes: 10, bytesPerBlock: 3000 })).toThrow(
      '10 bytes holds no block of 3000',
    );
    expect(() => poolBlockCount({ kind: 'blocks', count: 2.5 })).toThrow('not 2.5');
  });
});
