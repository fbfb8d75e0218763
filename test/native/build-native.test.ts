// Which kernels an addon is built of.

import { spawnSync } from 'node:child_process';
import { cpSync, existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, describe, expect, it } from 'vitest';
import {
  buildNative,
  compileObjects,
  findCompiler,
  instructionSets,
  kernelSources,
  setsOfThisMachine,
} from '../../scripts/build-native.js';
import { loadAddon } from '../../src/compute/cpu/binding.ts';
import { addon } from '../support/native.ts';

const root = fileURLToPath(new URL('../../', import.meta.url));
const folder = mkdtempSync(join(tmpdir(), 'chairlift-build-'));
afterAll(() => rmSync(folder, { recursive: true }));
const compiler = findCompiler() ?? '';

describe('a build for some instruction sets', () => {
  it('compiles their kernels alone, and tells the dispatch which there are', () => {
    const sources = kernelSources('x64', ['avx2']);
    expect(sources.map(({ name }) => name)).toEqual(['kernels/isa-avx2.cc', 'kernels/dispatch.cc']);
    const told = sources.at(-1)?.flags.filter((flag: string) => flag.startsWith('-DCHAIRLIFT_WITH'));
    expect(told).toEqual(['-DCHAIRLIFT_WITH_AVX2']);
  });

  it('compiles those of all where none are named', () => {
    const names = kernelSources('arm64').map(({ name }) => name);
    for (const set of ['neon', 'dotprod', 'i8mm', 'scalar']) expect(names).toContain(`kernels/isa-${set}.cc`);
  });

  it.skipIf(compiler === '')('takes this machine’s fastest', async () => {
    const sets = await setsOfThisMachine(compiler);
    expect(sets).toContain(addon().instructionSets().at(-1));
    expect(instructionSets(process.arch)).toEqual(expect.arrayContaining(sets));
  });

  it.skipIf(compiler === '')('does not load on a machine that runs none of them', async () => {
    const output = join(folder, 'foreign.node');
    await buildNative({ compiler, output, sets: [] });
    const load = loadAddon(output);
    expect(load.available ? '' : load.reason).toMatch(/built for another processor.*run npm run setup/);
  });
});

describe('two addons that are built at the same time', () => {
  it('compile once what both have', async () => {
    const script = join(folder, 'compiler.cjs');
    const calls = join(folder, 'calls');
    // It appends the name of a source to a file, and leaves an empty object. The folder is its version: objects of other runs do not fit.
    const text = `const { appendFileSync, writeFileSync } = require('node:fs');
      const args = process.argv.slice(2);
      if (args.includes('--version')) { console.log(${JSON.stringify(folder)}); process.exit(); }
      appendFileSync(${JSON.stringify(calls)}, args[args.indexOf('-c') + 1] + '\\n');
      writeFileSync(args[args.indexOf('-o') + 1], '');`;
    writeFileSync(script, text);
    const source = (name: string) => ({ folder, name, flags: [] });
    for (const name of ['one.cc', 'two.cc', 'three.cc']) writeFileSync(join(folder, name), '');
    const compile = (...names: string[]) =>
      compileObjects({ compiler: [process.execPath, script], arch: 'any', sources: names.map(source) });
    const [first, second] = await Promise.all([compile('one.cc', 'two.cc'), compile('two.cc', 'three.cc')]);
    expect(first[1]).toBe(second[0]);
    const compiled = [...first, ...second];
    expect(compiled.map((object) => existsSync(object))).toEqual([true, true, true, true]);
    expect(readFileSync(calls, 'utf8').trim().split('\n').sort()).toEqual(
      ['one.cc', 'three.cc', 'two.cc'].map((name) => join(folder, name)),
    );
    for (const object of compiled) rmSync(object, { force: true });
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
