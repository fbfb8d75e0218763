import { spawnSync } from 'node:child_process';
import { describe, expect, it } from 'vitest';
import { type Addon, loadAddon, missingKernels } from './binding.ts';

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
