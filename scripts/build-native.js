// Builds the C++ addon with a compiler, the system's or one for another machine: every source to an object, each ISA with
// its own flags, then one shared library. No build tool beside the compiler; objects whose inputs did not change are kept.

import { spawn, spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { availableParallelism } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('..', import.meta.url));
const nativeFolder = join(root, 'native');
// Headers are named from the addon's folder on.
export const includeFlags = ['-I', nativeFolder];

const avx2 = ['-mavx2', '-mfma', '-mf16c'];
const avx512bw = [...avx2, '-mavx512f', '-mavx512bw', '-mavx512dq', '-mavx512vl'];
const avx512 = [...avx512bw, '-mavx512vnni'];
// By architecture, as Node names it; what stands under none is compiled for all.
const isaFlags = {
  x64: {
    'kernels/isa-avx2.cc': avx2,
    'kernels/isa-avx512bw.cc': avx512bw,
    'kernels/isa-avx512.cc': avx512,
    'kernels/isa-amx.cc': [...avx512, '-mgfni', '-mamx-tile', '-mamx-int8'],
  },
  arm64: {
    'kernels/isa-neon.cc': [],
    'kernels/isa-dotprod.cc': ['-march=armv8.2-a+dotprod'],
    'kernels/isa-i8mm.cc': ['-march=armv8.2-a+dotprod+i8mm'],
  },
};

// Contraction is off so that a multiply and an add are never fused behind the code's back: all ISAs must
// give the same bits.
export const commonFlags = [
  '-std=c++17',
  '-O3',
  '-fPIC',
  '-fvisibility=hidden',
  '-ffp-contract=off',
  '-fno-math-errno',
  '-Wall',
  '-Wextra',
  '-Wno-maybe-uninitialized',
  '-Wno-uninitialized',
  '-Wno-unused-function',
];

// Kernels are written as vectors and unrolled by hand; more zeal of the compiler makes them no faster, only larger.
const kernelFlags = ['-O2', '-ftree-vectorize'];

/** Whether a source is the kernels of one instruction set. */
export function isKernels(name) {
  return name.startsWith('kernels/isa-');
}

/** A source and all of ours that it includes, each once; headers are named from the source's folder or the addon's. */
function textsOf(folder, name, seen = new Set()) {
  const path = [join(folder, name), join(nativeFolder, name)].find(existsSync);
  if (path === undefined || seen.has(path)) return [];
  seen.add(path);
  const text = readFileSync(path, 'utf8');
  const included = [...text.matchAll(/^#include "(.+)"$/gm)].map(([, header]) => header);
  return [text, ...included.flatMap((header) => textsOf(folder, header, seen))];
}

/** The C++ files that an architecture's build takes, each with its compiler flags. */
export function nativeSources(arch) {
  const foreign = Object.entries(isaFlags).flatMap(([other, files]) =>
    other === arch ? [] : Object.keys(files),
  );
  return readdirSync(nativeFolder, { recursive: true })
    .map((name) => name.replaceAll('\\', '/'))
    .filter((name) => name.endsWith('.cc') && !foreign.includes(name))
    .sort()
    .map((name) => ({
      name,
      folder: nativeFolder,
      flags: [
        ...commonFlags,
        ...(isKernels(name) ? kernelFlags : []),
        ...(isaFlags[arch]?.[name] ?? []),
        ...includeFlags,
      ],
    }));
}

export function findCompiler() {
  const candidates = process.env.CXX ? [process.env.CXX] : ['c++', 'g++', 'clang++'];
  return candidates.find((name) => spawnSync(name, ['--version'], { stdio: 'ignore' }).status === 0);
}

function hashOf(parts) {
  const hash = createHash('sha256');
  for (const part of parts) hash.update(part).update('\0');
  return hash.digest('hex').slice(0, 16);
}

/** A compiler is a program, or a program and the words that come first. */
function wordsOf(compiler, args) {
  const [program, ...words] = [compiler].flat();
  return { program, words: [...words, ...args] };
}

export function runCompiler(compiler, args) {
  const { program, words } = wordsOf(compiler, args);
  return new Promise((/** @type {(done?: undefined) => void} */ resolve, reject) => {
    const child = spawn(program, words, { stdio: ['ignore', 'inherit', 'inherit'] });
    child.on('error', reject);
    child.on('exit', (code) =>
      code === 0 ? resolve() : reject(new Error(`${program} ended with code ${code}`)),
    );
  });
}

async function runAll(jobs, limit) {
  const queue = [...jobs];
  const worker = async () => {
    for (let job = queue.shift(); job; job = queue.shift()) await job();
  };
  await Promise.all(Array.from({ length: limit }, worker));
}

/**
 * Compiles sources, but for those that have been compiled as they are, and returns the paths of their objects.
 * @param {{ compiler: string | string[], arch: string,
 *   sources: { folder: string, name: string, flags: string[] }[], log?: (line: string) => void }} options
 */
export async function compileObjects({ compiler, arch, sources, log = () => {} }) {
  const folder = join(root, 'build', 'objects');
  mkdirSync(folder, { recursive: true });
  const { program, words } = wordsOf(compiler, []);
  const version = spawnSync(program, [...words, '--version'], { encoding: 'utf8' }).stdout;
  const objects = sources.map(({ folder: sourceFolder, name, flags }) => {
    const key = hashOf([version, ...words, arch, flags.join(' '), ...textsOf(sourceFolder, name)]);
    const object = join(folder, `${name.replaceAll('/', '-')}-${key}.o`);
    return { object, args: [...flags, '-c', join(sourceFolder, name), '-o'] };
  });
  const stale = objects.filter(({ object }) => !existsSync(object));
  if (stale.length > 0) log(`compiling ${stale.length} C++ files with ${program}`);
  const jobs = stale.map(({ object, args }) => async () => {
    const partial = `${object}.${process.pid}`;
    await runCompiler(compiler, [...args, partial]);
    renameSync(partial, object);
  });
  await runAll(jobs, availableParallelism());
  return objects.map(({ object }) => object);
}

/** Flags for what includes Node's headers, wherever npm put them: among this package's own modules, or another program's. */
function headerFlags() {
  const headerPackage = createRequire(import.meta.url).resolve('node-api-headers/package.json');
  return ['-I', join(dirname(headerPackage), 'include')];
}

/**
 * For this machine, if no other is named. `spell` gives the flags of a source as the compiler knows them.
 * @param {{ compiler: string | string[], output: string, arch?: string, platform?: string,
 *   spell?: (flags: string[]) => string[], extraFlags?: string[], linkFlags?: string[],
 *   log?: (line: string) => void }} options
 * @returns {Promise<boolean>} whether anything was built
 */
export async function buildNative({
  compiler,
  output,
  arch = process.arch,
  platform = process.platform,
  spell = (flags) => flags,
  extraFlags = [],
  linkFlags = [],
  log = () => {},
}) {
  const nodeFlags = headerFlags();
  const sources = nativeSources(arch).map((source) => ({
    ...source,
    flags: spell([...source.flags, ...(source.name.startsWith('addon/') ? nodeFlags : []), ...extraFlags]),
  }));
  const objects = await compileObjects({ compiler, arch, sources, log });
  const linked = hashOf([...objects, [...extraFlags, ...linkFlags].join(' ')]);
  const stamp = `${output}.stamp`;
  if (existsSync(output) && existsSync(stamp) && readFileSync(stamp, 'utf8') === linked) return false;
  const shared =
    platform === 'darwin' ? ['-bundle', '-undefined', 'dynamic_lookup'] : ['-shared', '-pthread'];
  const partial = `${output}.${process.pid}`;
  await runCompiler(compiler, [...shared, ...extraFlags, ...objects, ...linkFlags, '-o', partial]);
  renameSync(partial, output);
  writeFileSync(stamp, linked);
  return true;
}
