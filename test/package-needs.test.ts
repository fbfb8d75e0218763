import { tmpdir } from 'node:os';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { packageNeeds } from '../scripts/package-needs.js';

const folders = [tmpdir()];
const NOWHERE = '/nowhere/compiler';

describe('what a package needs', () => {
  afterEach(() => vi.unstubAllEnvs());

  it('is Zig for all systems, and any compiler for this one', () => {
    vi.stubEnv('ZIG', NOWHERE);
    const all = packageNeeds({ isThisPlatform: false, folders, bytes: 1 });
    expect(all.missing).toEqual([expect.stringMatching(/pip install ziglang.*--this-platform/)]);
    expect(all.targets.length).toBeGreaterThan(3);
    vi.stubEnv('CXX', process.execPath);
    const own = packageNeeds({ isThisPlatform: true, folders, bytes: 1 });
    expect(own).toMatchObject({ missing: [], compiler: process.execPath });
    expect(own.targets.map(({ name }) => name)).toEqual([`${process.platform}-${process.arch}`]);
  });

  it('is said in a line each, all at once', () => {
    vi.stubEnv('ZIG', NOWHERE);
    vi.stubEnv('CXX', NOWHERE);
    const { missing } = packageNeeds({
      isThisPlatform: true,
      folders: [...folders, `${tmpdir()}/not/yet/there`],
      bytes: Number.MAX_SAFE_INTEGER,
    });
    expect(missing).toEqual([
      expect.stringContaining('a C++ compiler'),
      expect.stringMatching(/^\S+ has [\d.]+ GiB of free space; [\d.]+ GiB are needed$/),
    ]);
  });
});
