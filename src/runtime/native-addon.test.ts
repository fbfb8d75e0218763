import { describe, expect, it } from 'vitest';
import { type AddonFile, firstThatLoads } from './native-addon.ts';

describe('the choice of an addon', () => {
  const built: AddonFile = { origin: 'built', path: 'build' };
  const prebuilt: AddonFile = { origin: 'prebuilt', path: 'prebuilt' };
  const addonOf = (path: string) => ({ path });
  const load =
    (...broken: string[]) =>
    (path: string) => {
      if (broken.includes(path)) throw new Error(`${path} is for another system`);
      return addonOf(path);
    };

  it('takes the one that was built here before the one that came with the package', () => {
    expect(firstThatLoads([built, prebuilt], load())).toMatchObject({ available: true, origin: 'built' });
    expect(firstThatLoads([prebuilt], load())).toMatchObject({ available: true, origin: 'prebuilt' });
  });

  it('goes on to the next where one does not load', () => {
    const found = firstThatLoads([built, prebuilt], load('build'));
    expect(found.available && [found.origin, found.addon.path]).toEqual(['prebuilt', 'prebuilt']);
  });

  it('says why each was refused, and what to do, where none loads', () => {
    const found = firstThatLoads([built, prebuilt], load('build', 'prebuilt'));
    const reason = found.available ? '' : found.reason;
    expect(reason).toContain('the built C++ addon does not load (build is for another system)');
    expect(reason).toContain('the prebuilt C++ addon does not load (prebuilt is for another system)');
    expect(reason).toContain('install a C++ compiler');
  });
});
