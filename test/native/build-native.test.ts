// Which kernels an addon is built of, and that one without this machine's fastest still computes.

import { execFile, spawnSync } from 'node:child_process';
import { cpSync, existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { afterAll, describe, expect, it } from 'vitest';
import {
  compileObjects,
  findCompiler,
  includeFlags,
  instructionSets,
  kernelSources,
  runCompiler,
  setsOfThisMachine,
} from '../../scripts/build-native.js';
import { addon } from '../support/native.ts';

const root = fileURLToPath(new URL('../../', import.meta.url));
const folder = mkdtempSync(join(tmpdir(), 'chairlift-build-'));
afterAll(() => rmSync(folder, { recursive: true }));
const compiler = findCompiler() ?? '';

describe('a build for some instruction sets', () => {
  it('compiles their kernels and scalar ones, and tells the dispatch which there are', () => {
    const sources = kernelSources('x64', ['avx2']);
    expect(sources.map(({ name }) => name)).toEqual([
      'kernels/isa-avx2.cc',
      'kernels/isa-scalar.cc',
      'kernels/dispatch.cc',
    ]);
    const told = sources.at(-1)?.flags.filter((flag: string) => flag.startsWith('-DCHAIRLIFT_WITH'));
    expect(told).toEqual(['-DCHAIRLIFT_WITH_AVX2']);
  });

  it('compiles those of all where none are named', () => {
    const names = kernelSources('arm64').map(({ name }) => name);
    for (const set of ['neon', 'dotprod', 'i8mm', 'scalar']) expect(names).toContain(`kernels/isa-${set}.cc`);
  });

  it.skipIf(compiler === '')('takes this machine’s fastest', async () => {
    const sets = await setsOfThisMachine(compiler);
    expect(['scalar', ...sets]).toContain(addon().instructionSets().at(-1));
    expect(instructionSets(process.arch)).toEqual(expect.arrayContaining(sets));
  });

  // As on a machine whose processor is another than that of the build.
  it.skipIf(compiler === '')('computes with scalar kernels where it has no others', async () => {
    const name = 'print-kernels.cc';
    const text = [
      '#include <cstdio>',
      '#include "kernels/dispatch.h"',
      'int main() { for (auto* table : chairlift::availableKernels()) puts(table->name); }',
    ];
    writeFileSync(join(folder, name), `${text.join('\n')}\n`);
    const main = { folder, name, flags: ['-std=c++17', ...includeFlags] };
    const sources = [...kernelSources(process.arch, []), main];
    const objects = await compileObjects({ compiler, arch: process.arch, sources });
    const program = join(folder, 'print-kernels');
    await runCompiler(compiler, [...objects, '-o', program]);
    expect((await promisify(execFile)(program)).stdout).toBe('scalar\n');
  });
});

describe('npm run package', () => {
  it('says that Zig is missing before it installs or compiles anything', () => {
    const checkout = join(folder, 'checkout');
    for (const part of ['scripts', 'package.json', 'package-lock.json']) {
      cpSync(join(root, part), join(checkout, part), { recursive: true });
    }
    const env = { ...process.env, ZIG: join(folder, 'no-zig') };
    const { status, stderr } = spawnSync('npm', ['run', 'package'], { cwd: checkout, env, encoding: 'utf8' });
    expect(status).toBe(1);
    expect(stderr).toContain('prebuilt addons need Zig');
    expect(existsSync(join(checkout, 'node_modules'))).toBe(false);
  });
});
