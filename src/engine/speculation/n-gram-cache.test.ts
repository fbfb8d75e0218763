import { describe, expect, it } from 'vitest';
import { NgramCache, NgramCacheDrafter } from './n-gram-cache.ts';

function drafter(ngramCache: NgramCache, salt: string, ...tokens: number[]): NgramCacheDrafter {
  return new NgramCacheDrafter(ngramCache, salt, Int32Array.from(tokens));
}

describe('ngramCache', () => {
  it('are what other answers went on with behind the same tokens', () => {
    const ngramCache = new NgramCache();
    const teacher = drafter(ngramCache, '', 1, 2, 3, 4);
    for (const token of [5, 6, 7]) teacher.accept(token);
    const pupil = drafter(ngramCache, '', 1, 2, 3, 4);
    expect(pupil.propose()).toEqual({ token: 5, source: 'n-gram-cache', matchLength: 4 });
    pupil.extend(5);
    expect(pupil.propose()).toEqual({ token: 6, source: 'n-gram-cache', matchLength: 4 });
    pupil.rollBack();
    expect(pupil.propose()?.token).toBe(5);
    expect(drafter(ngramCache, '', 8, 9, 3, 4).propose()).toEqual({
      token: 5,
      source: 'n-gram-cache',
      matchLength: 2,
    });
  });

  it('of another salt are not known', () => {
    const ngramCache = new NgramCache();
    drafter(ngramCache, 'a', 1, 2, 3, 4).accept(5);
    expect(drafter(ngramCache, 'b', 1, 2, 3, 4).propose()).toBeUndefined();
  });

  it('are those that were seen last', () => {
    const ngramCache = new NgramCache();
    drafter(ngramCache, '', 1, 2, 3, 4).accept(5);
    drafter(ngramCache, '', 1, 2, 3, 4).accept(6);
    expect(drafter(ngramCache, '', 1, 2, 3, 4).propose()?.token).toBe(6);
  });
});
