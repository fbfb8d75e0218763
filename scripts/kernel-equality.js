// Holds this machine's kernels against the scalar ones, bit for bit; with --arm64 also those of ARM64, on emulated
// processors with and without the optional instructions, against the same results.
// Usage: node scripts/kernel-equality.js [--arm64], which needs a cross compiler and QEMU's user emulation, but not on
// ARM64 itself.

import { spawnSync } from 'node:child_process';
import { mkdirSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import {
  commonFlags,
  compileObjects,
  findCompiler,
  includeFlags,
  isKernels,
  nativeSources,
  runCompiler,
} from './build-native.js';

const root = fileURLToPath(new URL('..', import.meta.url));
const testFolder = join(root, 'test', 'native');

const crossCompiler = 'aarch64-linux-gnu-g++';
const emulators = ['qemu-aarch64', 'qemu-aarch64-static'];
// Processors and the tables that must be chosen from on each.
const processors = {
  'cortex-a72': 'scalar neon',
  'neoverse-n1': 'scalar neon dotprod',
  max: 'scalar neon dotprod i8mm',
};

function fail(line) {
  process.stderr.write(`${line}\n`);
  process.exit(1);
}

function runs(command) {
  return spawnSync(command, ['--version'], { stdio: 'ignore' }).status === 0;
}

async function compile(compiler, arch) {
  const folder = join(root, 'build', `kernel-equality-${arch}`);
  mkdirSync(folder, { recursive: true });
  const kernels = nativeSources(arch).filter(({ name }) => isKernels(name) || name === 'kernels/dispatch.cc');
  const tests = readdirSync(testFolder)
    .filter((name) => name.endsWith('.cc'))
    .map((name) => ({ folder: testFolder, name, flags: [...commonFlags, ...includeFlags] }));
  const objects = await compileObjects({ compiler, arch, sources: [...kernels, ...tests] });
  const program = join(folder, 'kernel-equality');
  // Static, so that the emulator needs no libraries of the other architecture.
  const link = arch === process.arch ? [] : ['-static'];
  await runCompiler(compiler, [...link, ...objects, '-o', program]);
  return program;
}

/** Runs the program and returns what it reports; ends this process where it finds a difference. */
function check(label, command, args) {
  const { status, signal, stdout } = spawnSync(command, args, {
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const field = (name) => stdout?.match(new RegExp(`^${name}: (.*)$`, 'm'))?.[1];
  process.stdout.write(`${label}: ${field('tables')}: ${field('comparisons')} comparisons\n`);
  if (status !== 0) fail(`${label}: ${signal ?? `ended with code ${status}`}\n${stdout}`);
  return { tables: field('tables'), fingerprint: field('fingerprint') };
}

async function main() {
  const hostCompiler = findCompiler();
  if (!hostCompiler) fail('no C++ compiler found (c++, g++ or clang++)');
  const emulator = emulators.find(runs);
  const cross = process.argv.includes('--arm64') && process.arch !== 'arm64';
  if (cross && !(emulator && runs(crossCompiler))) {
    fail(
      `this needs an ARM64 cross compiler (${crossCompiler}) and ${emulators.join(' or ')}; ` +
        'on Debian and Ubuntu: apt-get install g++-aarch64-linux-gnu qemu-user',
    );
  }

  const here = check('this machine', await compile(hostCompiler, process.arch), []);
  if (!cross) return;
  const program = await compile(crossCompiler, 'arm64');
  for (const [processor, tables] of Object.entries(processors)) {
    const found = check(processor, emulator, ['-cpu', processor, program]);
    if (found.tables !== tables) fail(`${processor} has ${found.tables}, not ${tables}`);
    if (found.fingerprint !== here.fingerprint) fail(`${processor} computes other bits than this machine`);
  }
  process.stdout.write(`the same bits everywhere: ${here.fingerprint}\n`);
}

await main().catch((error) => fail(error.message));
