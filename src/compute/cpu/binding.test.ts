import { spawnSync } from 'node:child_process';
import { describe, expect, it } from 'vitest';
import { type Addon, type AddonFile, firstThatLoads, loadAddon, missingKernels } from './binding.ts';

const compilers = ['c++', 'g++', 'clang++'];
const hasCompiler = compilers.some((name) => spawnSync(name, ['--version']).status === 0);

describe('the addon', () => {
  // Without this, a build that breaks would only turn the tests that need the addon into skipped ones.
  it.skipIf(!hasCompiler)('is built and loads wherever there is a C++ compiler', () => {
    const load = loadAddon();
    expect(load.available ? '' : load.reason).toBe('');
    expect(load.available && load.addon.kernels()[0]).toBe('scalar');
  });

  it('says what to do where it is missing', () => {
    const load = loadAddon('/nowhere/chairlift.node');
    expect(load.available ? '' : load.reason).toMatch(
      /not built; install a C\+\+ compiler and run npm run setup/,
    );
  });
});

describe('the choice of an addon', () => {
  const built: AddonFile = { origin: 'built', path: 'build' };
  const prebuilt: AddonFile = { origin: 'prebuilt', path: 'prebuilt' };
  const addonOf = (path: string) => ({ kernels: () => [path] }) as unknown as Addon;
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
    expect(found.available && [found.origin, ...found.addon.kernels()]).toEqual(['prebuilt', 'prebuilt']);
  });

  it('says why each was refused, and what to do, where none loads', () => {
    const found = firstThatLoads([built, prebuilt], load('build', 'prebuilt'));
    const reason = found.available ? '' : found.reason;
    expect(reason).toContain('the built C++ addon does not load (build is for another system)');
    expect(reason).toContain('the prebuilt C++ addon does not load (prebuilt is for another system)');
    expect(reason).toContain('install a C++ compiler');
  });
});

describe('an addon that was built on another machine', () => {
  const addonOf = (kernels: string[], sets: string[]) =>
    ({ kernels: () => kernels, instructionSets: () => sets }) as Addon;

  it('is told from one that has this machine’s fastest kernels, with what to do', () => {
    expect(missingKernels(addonOf(['scalar', 'avx512'], ['scalar', 'avx2', 'avx512']))).toBeUndefined();
    expect(missingKernels(addonOf(['scalar'], ['scalar', 'avx2']))).toBe(
      'the C++ addon was built for another processor: it computes with scalar kernels where avx2 would be faster; run npm run setup',
    );
  });
});
