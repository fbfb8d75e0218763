import { spawnSync } from 'node:child_process';
import { describe, expect, it } from 'vitest';
import { loadAddon } from './binding.ts';

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
