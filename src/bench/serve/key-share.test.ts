import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { dealKeys, parseKey } from './key-share.ts';

describe('a key on the command line', () => {
  it.each([
    ['sk-abc', { name: 'key-3', secret: 'sk-abc', weight: 1 }],
    ['vip=sk-abc', { name: 'vip', secret: 'sk-abc', weight: 1 }],
    ['bulk:2.5=sk-a=b=', { name: 'bulk', secret: 'sk-a=b=', weight: 2.5 }],
    ['c2VjcmV0==', { name: 'key-3', secret: 'c2VjcmV0==', weight: 1 }],
  ])('%s has its name, secret and weight', (text, key) => {
    expect(parseKey(text, 3)).toEqual(key);
  });

  it.each(['', '  ', 'a:0=b'])('%j is none', (text) => {
    expect(parseKey(text, 1)).toBeUndefined();
  });
});

describe('dealing requests to keys', () => {
  it('keeps every key within one request of its share at any time', () => {
    const weights = fc.array(fc.integer({ min: 1, max: 9 }), { minLength: 1, maxLength: 5 });
    fc.assert(
      fc.property(weights, (all) => {
        const keys = all.map((weight, n) => ({ name: `${n}`, secret: undefined, weight }));
        const total = all.reduce((sum, weight) => sum + weight, 0);
        const counts = all.map(() => 0);
        dealKeys(keys, 60).forEach(({ name }, n) => {
          counts[Number(name)] = (counts[Number(name)] as number) + 1;
          all.forEach((weight, key) => {
            expect(Math.abs((counts[key] as number) - ((n + 1) * weight) / total)).toBeLessThanOrEqual(
              1 + 1e-6,
            );
          });
        });
      }),
      { numRuns: 50 },
    );
  });
});
