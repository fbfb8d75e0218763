// Holds this machine's kernels against the scalar ones, bit for bit; with --arm64 also those of ARM64, on emulated
// processors with and without the optional instructions, against the same results; with --prebuilt also those that the
// compiler of the package makes, for both architectures of Linux.
// Usage: node scripts/kernel-equality.js [--arm64] [--prebuilt]. On machines that are not ARM64 they need QEMU's user
// emulation and a cross compiler (the second one for its C library), and --prebuilt needs Zig.

import { spawnSync } from 'node:child_process';
import { mkdirSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import {
  commonFlags,
  compileObjects,
  findCompiler,
  includeFlags,
  kernelSources,
  runCompiler,
} from './build-native.js';
import { crossCompiler, crossFlags, findZig, noZig, prebuiltTargets } from './cross-compiler.js';

const root = fileURLToPath(new URL('..', import.meta.url));
const testFolder = join(root, 'test', 'native');

const armCompiler = 'aarch64-linux-gnu-g++';
const armLibraries = '/usr/aarch64-linux-gnu';
const emulators = ['qemu-aarch64', 'qemu-aarch64-static'];
// Processors, and the kernel tables each must offer.
const processors = {
  'cortex-a72': 'scalar neon',
  'neoverse-n1': 'scalar neon dotprod',
  max: 'scalar neon dotprod i8mm',
};

/** @returns {never} */
function fail(line) {
  process.stderr.write(`${line}\n`);
  process.exit(1);
}

function runs(command) {
  return spawnSync(command, ['--version'], { stdio: 'ignore' }).status === 0;
}

/** @param {{ compiler: string | string[], arch: string, spell?: (flags: string[]) => string[], link?: string[] }} options */
async function compile({ compiler, arch, spell = (flags) => flags, link = [] }) {
  const folder = join(root, 'build', `kernel-equality-${arch}`);
  mkdirSync(folder, { recursive: true });
  const tests = readdirSync(testFolder)
    .filter((name) => name.endsWith('.cc'))
    .map((name) => ({ folder: testFolder, name, flags: [...commonFlags, ...includeFlags] }));
  // Buffers lie in system pages, as in the addon.
  const pages = {
    folder: join(root, 'native'),
    name: 'system/pages.cc',
    flags: [...commonFlags, ...includeFlags],
  };
  const sources = [...kernelSources(arch), pages, ...tests].map((source) => ({
    ...source,
    flags: spell(source.flags),
  }));
  const objects = await compileObjects({ compiler, arch, sources });
  const program = join(folder, 'kernel-equality');
  await runCompiler(compiler, [...link, ...objects, '-o', program]);
  return program;
}

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

/** `options`: of the emulator. */
function checkEmulated(label, emulator, options, program, fingerprint) {
  for (const [processor, tables] of Object.entries(processors)) {
    const name = `${label}${processor}`;
    const found = check(name, emulator, [...options, '-cpu', processor, program]);
    if (found.tables !== tables) fail(`${name} has ${found.tables}, not ${tables}`);
    if (found.fingerprint !== fingerprint) fail(`${name} computes other bits than this machine`);
  }
}

async function checkPrebuilt(zig, emulator, fingerprint) {
  for (const target of prebuiltTargets.filter(({ platform }) => platform === 'linux')) {
    const { name, arch } = target;
    const program = await compile({ compiler: crossCompiler(zig, target), arch, spell: crossFlags });
    const label = `prebuilt for ${name}`;
    if (arch === process.arch) {
      if (check(label, program, []).fingerprint !== fingerprint) fail(`${label} computes other bits`);
    } else if (arch === 'arm64') {
      checkEmulated(`${label}, `, emulator, ['-L', armLibraries], program, fingerprint);
    } else {
      process.stdout.write(`${label}: compiled, not tried here\n`);
    }
  }
}

async function main() {
  const hostCompiler = findCompiler();
  if (!hostCompiler) fail('no C++ compiler found (c++, g++ or clang++)');
  const emulator = emulators.find(runs);
  const prebuilt = process.argv.includes('--prebuilt');
  const emulates = (prebuilt || process.argv.includes('--arm64')) && process.arch !== 'arm64';
  if (emulates && !(emulator && runs(armCompiler))) {
    fail(
      `this needs an ARM64 cross compiler (${armCompiler}) and ${emulators.join(' or ')}; ` +
        'on Debian and Ubuntu: apt-get install g++-aarch64-linux-gnu qemu-user',
    );
  }
  const zig = prebuilt ? findZig() : undefined;
  if (prebuilt && !zig) fail(noZig);

  const { fingerprint } = check(
    'this machine',
    await compile({ compiler: hostCompiler, arch: process.arch }),
    [],
  );
  if (process.argv.includes('--arm64') && emulates) {
    // Static, so that the emulator needs no libraries of the other architecture.
    const program = await compile({ compiler: armCompiler, arch: 'arm64', link: ['-static'] });
    checkEmulated('', emulator, [], program, fingerprint);
  }
  if (prebuilt) await checkPrebuilt(zig, emulator, fingerprint);
  if (emulates || prebuilt) process.stdout.write(`the same bits everywhere: ${fingerprint}\n`);
}

await main().catch((error) => fail(error.message));
