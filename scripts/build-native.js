// Builds the C++ addon with the system compiler: every source to an object, each ISA with its own flags,
// then one shared library. No build tool beside the compiler; objects whose inputs did not change are kept.

import { spawn, spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { availableParallelism } from 'node:os';
import { dirname, join } from 'node:path';

const avx2 = ['-mavx2', '-mfma', '-mf16c'];
const avx512 = [...avx2, '-mavx512f', '-mavx512bw', '-mavx512dq', '-mavx512vl', '-mavx512vnni'];
// By architecture, as Node names it; what stands under none is compiled for all.
const isaFlags = {
  x64: {
    'kernels/isa-avx2.cc': avx2,
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

/** A source and all of ours that it includes, each once. */
function textsOf(folder, name, seen = new Set()) {
  if (seen.has(name)) return [];
  seen.add(name);
  const text = readFileSync(join(folder, name), 'utf8');
  const included = [...text.matchAll(/^#include "(.+)"$/gm)].map(([, header]) => header);
  return [text, ...included.flatMap((header) => textsOf(folder, header, seen))];
}

/** The C++ files that an architecture's build takes, each with its compiler flags. */
export function nativeSources(folder, arch) {
  const foreign = Object.entries(isaFlags).flatMap(([other, files]) =>
    other === arch ? [] : Object.keys(files),
  );
  return readdirSync(folder, { recursive: true })
    .map((name) => name.replaceAll('\\', '/'))
    .filter((name) => name.endsWith('.cc') && !foreign.includes(name))
    .sort()
    .map((name) => ({
      name,
      flags: [
        ...commonFlags,
        ...(isKernels(name) ? kernelFlags : []),
        ...(isaFlags[arch]?.[name] ?? []),
        '-I',
        folder,
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

export function runCompiler(compiler, args) {
  return new Promise((/** @type {(done?: undefined) => void} */ resolve, reject) => {
    const child = spawn(compiler, args, { stdio: ['ignore', 'inherit', 'inherit'] });
    child.on('error', reject);
    child.on('exit', (code) =>
      code === 0 ? resolve() : reject(new Error(`${compiler} ended with code ${code}`)),
    );
  });
}

export async function runAll(jobs, limit) {
  const queue = [...jobs];
  const worker = async () => {
    for (let job = queue.shift(); job; job = queue.shift()) await job();
  };
  await Promise.all(Array.from({ length: limit }, worker));
}

/**
 * @param {{ root: string, compiler: string, output: string, extraFlags?: string[], log?: (line: string) => void }} options
 * @returns {Promise<boolean>} whether anything was built
 */
export async function buildNative({ root, compiler, output, extraFlags = [], log = () => {} }) {
  const sourceFolder = join(root, 'native');
  const objectFolder = join(root, 'build', 'objects');
  mkdirSync(objectFolder, { recursive: true });
  const version = spawnSync(compiler, ['--version'], { encoding: 'utf8' }).stdout;
  // Wherever npm put it: beside this package's own modules, or above them in another program's.
  const headerPackage = createRequire(import.meta.url).resolve('node-api-headers/package.json');
  const include = join(dirname(headerPackage), 'include');

  const objects = nativeSources(sourceFolder, process.arch).map(({ name, flags: ownFlags }) => {
    const flags = [...ownFlags, ...extraFlags];
    const source = join(sourceFolder, name);
    const key = hashOf([version, process.arch, flags.join(' '), ...textsOf(sourceFolder, name)]);
    const object = join(objectFolder, `${name.replaceAll('/', '-')}-${key}.o`);
    return { source, object, args: [...flags, '-I', include, '-c', source, '-o'] };
  });
  const linked = hashOf([...objects.map((o) => o.object), extraFlags.join(' ')]);
  const stamp = `${output}.stamp`;
  if (existsSync(output) && existsSync(stamp) && readFileSync(stamp, 'utf8') === linked) return false;

  const stale = objects.filter((o) => !existsSync(o.object));
  if (stale.length > 0) log(`compiling ${stale.length} C++ files with ${compiler}`);
  const jobs = stale.map((o) => async () => {
    const partial = `${o.object}.${process.pid}`;
    await runCompiler(compiler, [...o.args, partial]);
    renameSync(partial, o.object);
  });
  await runAll(jobs, availableParallelism());
  const shared =
    process.platform === 'darwin' ? ['-bundle', '-undefined', 'dynamic_lookup'] : ['-shared', '-pthread'];
  const partial = `${output}.${process.pid}`;
  await runCompiler(compiler, [...shared, ...extraFlags, ...objects.map((o) => o.object), '-o', partial]);
  renameSync(partial, output);
  writeFileSync(stamp, linked);
  return true;
}
