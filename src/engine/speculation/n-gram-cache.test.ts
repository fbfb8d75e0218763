import { describe, expect, it } from 'vitest';
import { NgramCache, NgramCacheDrafter } from './n-gram-cache.ts';

function drafter(cache: NgramCache, salt: string, ...tokens: number[]): NgramCacheDrafter {
  return new NgramCacheDrafter(cache, salt, Int32Array.from(tokens));
}

describe('the n-gram cache', () => {
  it('knows what other answers went on with after the same tokens', () => {
    const cache = new NgramCache();
    const teacher = drafter(cache, '', 1, 2, 3, 4);
    for (const token of [5, 6, 7]) teacher.accept(token);
    const pupil = drafter(cache, '', 1, 2, 3, 4);
    expect(pupil.propose()).toEqual({ token: 5, source: 'n-gram-cache', matchLength: 4 });
    pupil.extend(5);
    expect(pupil.propose()).toEqual({ token: 6, source: 'n-gram-cache', matchLength: 4 });
    pupil.rollBack();
    expect(pupil.propose()?.token).toBe(5);
    expect(drafter(cache, '', 8, 9, 3, 4).propose()).toEqual({
      token: 5,
      source: 'n-gram-cache',
      matchLength: 2,
    });
  });

  it('does not know those of another salt', () => {
    const cache = new NgramCache();
    drafter(cache, 'a', 1, 2, 3, 4).accept(5);
    expect(drafter(cache, 'b', 1, 2, 3, 4).propose()).toBeUndefined();
  });

  it('knows those that were seen last', () => {
    const cache = new NgramCache();
    drafter(cache, '', 1, 2, 3, 4).accept(5);
    drafter(cache, '', 1, 2, 3, 4).accept(6);
    expect(drafter(cache, '', 1, 2, 3, 4).propose()?.token).toBe(6);
  });
});
