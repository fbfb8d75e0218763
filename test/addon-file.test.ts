// What the package's addons are, read from their files. The fixtures are test/fixtures/addons/addon.c for three systems; what is
// expected of them here is what LIEF reads in them.

import { existsSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { gunzipSync } from 'node:zlib';
import { describe, expect, it } from 'vitest';
import { readAddonFile } from '../scripts/addon-file.js';
import { addonFaults, checkAddonFile } from '../scripts/check-addon.js';
import { prebuiltTargets, targetSets } from '../scripts/cross-compiler.js';
import { hasAddon } from './support/native.ts';

const pathOf = (name: string) => fileURLToPath(new URL(`../${name}`, import.meta.url));
const fixture = (name: string) => gunzipSync(readFileSync(pathOf(`test/fixtures/addons/${name}.node.gz`)));
const targetOf = (name: string) => {
  const target = prebuiltTargets.find((one) => one.name === name);
  if (target === undefined) throw new Error(`there is no target ${name}`);
  return target;
};

const exports = ['napi_register_module_v1', 'node_api_module_get_api_version_v1'];

describe('the file of an addon', () => {
  it('is read where it is ELF', () => {
    expect(readAddonFile(fixture('linux-x64'))).toEqual({
      format: 'elf',
      arch: 'x64',
      exports,
      libraries: ['libc.so.6'],
      imports: ['getpid'],
      hostImports: ['napi_create_object'],
      minimum: '2.2.5',
    });
  });

  it('is read where it is Mach-O', () => {
    expect(readAddonFile(fixture('darwin-arm64'))).toEqual({
      format: 'mach-o',
      arch: 'arm64',
      exports,
      libraries: ['/usr/lib/libSystem.B.dylib'],
      imports: ['dyld_stub_binder', 'getpid'],
      hostImports: ['napi_create_object'],
      minimum: '11.0',
      signed: true,
    });
  });

  it('is read where it is PE', () => {
    expect(readAddonFile(fixture('win32-x64'))).toEqual({
      format: 'pe',
      arch: 'x64',
      exports,
      libraries: ['KERNEL32.dll'],
      imports: ['GetTickCount'],
      hostImports: [],
      minimum: '6.0',
    });
  });

  it('is refused where it is none, or is cut off', () => {
    expect(() => readAddonFile(Buffer.from('#!/bin/sh\n'))).toThrow('is neither ELF nor Mach-O nor PE');
    for (const name of ['linux-x64', 'darwin-arm64', 'win32-x64']) {
      expect(() => readAddonFile(fixture(name).subarray(0, 200))).toThrow();
    }
  });
});

describe('an addon of the package', () => {
  it.each(['linux-x64', 'darwin-arm64', 'win32-x64'])(
    'for %s is right where it keeps all promises',
    (name) => {
      expect(addonFaults(readAddonFile(fixture(name)), targetOf(name))).toEqual([]);
    },
  );

  it('is refused where it breaks one', () => {
    const [linux, mac, windows] = ['linux-x64', 'darwin-arm64', 'win32-x64'].map((name) => ({
      addon: readAddonFile(fixture(name)),
      target: targetOf(name),
    }));
    const faults = (one: typeof linux, change: object) =>
      one === undefined ? [] : addonFaults({ ...one.addon, ...change }, one.target);
    expect(faults(linux, { minimum: '2.28' })).toEqual(['it needs version 2.28 of the system, not 2.17']);
    expect(faults(linux, { libraries: ['libstdc++.so.6'] })).toEqual(['it needs libstdc++.so.6']);
    expect(faults(linux, { hostImports: ['uv_queue_work'] })).toEqual([
      'it looks for uv_queue_work in the program that loads it',
    ]);
    expect(faults(mac, { signed: false })).toEqual(['it has no signature']);
    expect(faults(mac, { minimum: '13.0' })).toEqual(['it needs version 13.0 of the system, not 11.0']);
    expect(faults(mac, { arch: 'x64' })).toEqual(['it is for x64, not arm64']);
    // The program may have another name.
    expect(faults(windows, { libraries: ['KERNEL32.dll', 'node.exe'] })).toEqual(['it needs node.exe']);
    expect(faults(windows, { exports: [] })).toEqual(['it exports nothing']);
    expect(addonFaults(readAddonFile(fixture('win32-x64')), targetOf('linux-x64'))[0]).toBe(
      'it is pe, not elf',
    );
  });

  const built = prebuiltTargets.filter(({ file }) => existsSync(pathOf(`prebuilt/${file}`)));
  it.skipIf(built.length === 0)(
    'is what it promises to be (skipped where npm run package has made none)',
    () => {
      for (const target of built) checkAddonFile(pathOf(`prebuilt/${target.file}`), target);
    },
  );

  it.skipIf(!hasAddon || process.platform !== 'linux')('offers what the one that is built here does', () => {
    const own = readAddonFile(readFileSync(pathOf('build/chairlift.node')));
    expect(own.exports).toEqual(expect.arrayContaining(exports));
    // On Windows these are filled in by hand: what is missing in the list there does not link.
    const listed = readFileSync(pathOf('native/system/host-functions.cc'), 'utf8').matchAll(
      /each\((napi_\w+)\)/g,
    );
    expect([...listed].map(([, name]) => name).sort()).toEqual(own.hostImports);
  });

  it('has kernels of AMX on Linux alone, where the system is asked for them', () => {
    expect(targetSets(targetOf('linux-x64'))).toContain('amx');
    expect(targetSets(targetOf('win32-x64'))).toEqual(['scalar', 'avx2', 'avx512bw', 'avx512']);
    expect(targetSets(targetOf('darwin-x64'))).toEqual(['scalar', 'avx2', 'avx512bw', 'avx512']);
    expect(targetSets(targetOf('darwin-arm64'))).toEqual(['scalar', 'neon', 'dotprod', 'i8mm']);
  });
});
