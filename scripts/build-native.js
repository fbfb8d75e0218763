// Builds the C++ addon with a compiler, the system's or one for another machine: sources to objects, the kernels of each
// instruction set with flags of its own, then one shared library. No build tool but the compiler; objects whose inputs
// did not change are kept.

import { spawn, spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { availableParallelism } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('..', import.meta.url));
export const nativeFolder = join(root, 'native');
const unitFolder = join(root, 'build', 'units');
const objectFolder = join(root, 'build', 'objects');
// Headers are named from the addon's folder on.
export const includeFlags = ['-I', nativeFolder];

const avx2 = ['-mavx2', '-mfma', '-mf16c'];
const avx512bw = [...avx2, '-mavx512f', '-mavx512bw', '-mavx512dq', '-mavx512vl'];
const avx512 = [...avx512bw, '-mavx512vnni'];
// Instruction sets with kernels by architecture as Node names it, slowest first, with their flags. Scalar kernels are an oracle
// and a last resort; they take half the time to compile so.
const scalar = ['-O1', '-ftree-vectorize', '-ftree-slp-vectorize'];
const setFlags = {
  x64: { scalar, avx2, avx512bw, avx512, amx: [...avx512, '-mgfni', '-mamx-tile', '-mamx-int8'] },
  arm64: { scalar, neon: [], dotprod: ['-march=armv8.2-a+dotprod'], i8mm: ['-march=armv8.2-a+dotprod+i8mm'] },
};

// Folders are compiled as two units: headers are most of the cost of small files.
const computingUnit = ['layers', 'model', 'tower', 'sampling', 'system'];
// It computes nothing itself.
const callingUnit = ['cuda', 'cuda/layers', 'cuda/tower', 'addon'];
const callingUnitFlags = ['-O1'];
// The GPU that tests run kernels on; a build that has it uses it alone. It is compiled in half the time with few optimisations.
const simulatorUnits = [['cuda/simulator'], ['cuda/simulator/vision']];
// A simulated thread asks for its block at every step: with this model that is a load, and no call.
const simulatorUnitFlags = ['-O1', '-ftls-model=initial-exec'];
const simulatorFlags = ['-DCHAIRLIFT_SIMULATED_GPU'];

// Contraction is off so that a multiply and an add are never fused: all ISAs must give the same bits.
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
  // Those of CUDA's compiler.
  '-Wno-unknown-pragmas',
];

// Kernels are vectorised and unrolled by hand; higher optimisation only makes them larger.
const kernelFlags = ['-O2', '-ftree-vectorize'];
// A set's kernels are those of another, but for some.
const base = { amx: 'avx512' };

/** A source and all it includes, but for what was `seen`. */
export function textsOf(folder, name, seen = new Set()) {
  const path = [join(folder, name), join(nativeFolder, name)].find(existsSync);
  if (path === undefined || seen.has(path)) return [];
  seen.add(path);
  const text = readFileSync(path, 'utf8');
  const included = [...text.matchAll(/^#include "(.+)"$/gm)].map(([, header]) => header);
  return [text, ...included.flatMap((header) => textsOf(folder, header, seen))];
}

/** Slowest first. */
export function instructionSets(arch) {
  return Object.keys(flagsOfSets(arch));
}

function flagsOfSets(arch) {
  return setFlags[arch] ?? { scalar };
}

function sourcesOf(folder) {
  const files = readdirSync(join(nativeFolder, folder)).filter((file) => file.endsWith('.cc'));
  return files.sort().map((file) => `#include "${folder}/${file}"\n`);
}

function unitOf(folders, moreFlags = []) {
  mkdirSync(unitFolder, { recursive: true });
  const text = folders.flatMap(sourcesOf);
  const name = `${folders.join('-').replaceAll('/', '-')}.cc`;
  const path = join(unitFolder, name);
  if (!existsSync(path) || readFileSync(path, 'utf8') !== text.join('')) writeFileSync(path, text.join(''));
  return { folder: unitFolder, name, flags: [...commonFlags, ...moreFlags, ...includeFlags] };
}

function kernelsOf(arch, set) {
  const flags = [...commonFlags, ...kernelFlags, ...flagsOfSets(arch)[set], ...includeFlags];
  return readdirSync(join(nativeFolder, 'kernels'))
    .filter((file) => file === `isa-${set}.cc` || file.startsWith(`isa-${set}-`))
    .sort()
    .map((file) => ({ folder: nativeFolder, name: `kernels/${file}`, flags }));
}

export function kernelSources(arch, wanted = instructionSets(arch)) {
  const sets = instructionSets(arch).filter((set) => wanted.some((one) => one === set || base[one] === set));
  const named = sets.map((set) => `-DCHAIRLIFT_WITH_${set.toUpperCase()}`);
  const choice = { folder: nativeFolder, name: 'kernels/dispatch.cc' };
  return [
    ...sets.toReversed().flatMap((set) => kernelsOf(arch, set)),
    { ...choice, flags: [...commonFlags, ...named, ...includeFlags] },
  ];
}

export function findCompiler() {
  const candidates = process.env.CXX ? [process.env.CXX] : ['c++', 'g++', 'clang++'];
  return candidates.find((name) => spawnSync(name, ['--version'], { stdio: 'ignore' }).status === 0);
}

export function hashOf(parts) {
  const hash = createHash('sha256');
  for (const part of parts) hash.update(part).update('\0');
  return hash.digest('hex').slice(0, 16);
}

/** A compiler is a program, or a program with its first arguments. */
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

/** Limits compilers to the number of cores. */
export class Slots {
  #free = availableParallelism();
  #waiting = [];

  async run(job) {
    if (this.#free > 0) this.#free--;
    else await new Promise((resolve) => this.#waiting.push(resolve));
    try {
      return await job();
    } finally {
      const next = this.#waiting.shift();
      if (next) next();
      else this.#free++;
    }
  }
}

const slots = new Slots();
/** Compilations under way, by object: addons that are built at the same time share most of theirs. */
const underWay = new Map();

function versionOf(compiler) {
  const { program, words } = wordsOf(compiler, ['--version']);
  mkdirSync(objectFolder, { recursive: true });
  // For some targets Zig leaves an empty object in its working directory.
  return spawnSync(program, words, { encoding: 'utf8', cwd: objectFolder }).stdout;
}

/** The object's name depends on everything that goes into it. */
function objectOf({ compiler, version, arch }, { folder, name, flags }) {
  const { words } = wordsOf(compiler, []);
  const key = hashOf([version, ...words, arch, flags.join(' '), ...textsOf(folder, name)]);
  return join(objectFolder, `${name.replaceAll('/', '-')}-${key}.o`);
}

const sharedFlags = { darwin: ['-bundle', '-undefined', 'dynamic_lookup'], win32: ['-shared'] };

// Opening libraries at run time is a library of its own in older C libraries; others have an empty one.
export const openingFlags = ['-ldl'];

const noProgress = { add: (_count) => {}, done: () => {} };

/**
 * Compiles sources, but for those that have been compiled as they are, and returns the paths of their objects.
 * @param {{ compiler: string | string[], arch: string, sources: { folder: string, name: string, flags: string[] }[],
 *   progress?: { add(count: number): void, done(): void } }} options
 */
export async function compileObjects({ compiler, arch, sources, progress = noProgress }) {
  mkdirSync(objectFolder, { recursive: true });
  const version = versionOf(compiler);
  const all = sources.map((source) => ({ ...source, object: objectOf({ compiler, version, arch }, source) }));
  const stale = all.filter(({ object }) => !existsSync(object));
  progress.add(stale.length);
  const compile = async ({ folder, name, flags, object }) => {
    const partial = `${object}.${process.pid}`;
    await runCompiler(compiler, [...flags, '-c', join(folder, name), '-o', partial]);
    renameSync(partial, object);
  };
  const compileOnce = async (source) => {
    const compiling = underWay.get(source.object) ?? slots.run(() => compile(source));
    underWay.set(source.object, compiling);
    await compiling.finally(() => underWay.delete(source.object));
    progress.done();
  };
  await Promise.all(stale.map(compileOnce));
  return all.map(({ object }) => object);
}

/** Slowest first; undefined where the machine cannot be asked. */
async function runnableSets(compiler) {
  const source = {
    folder: join(root, 'scripts'),
    name: 'instruction-sets.cc',
    flags: [...commonFlags, ...includeFlags],
  };
  const program = objectOf({ compiler, version: versionOf(compiler), arch: process.arch }, source).replace(
    /\.o$/,
    '',
  );
  try {
    mkdirSync(objectFolder, { recursive: true });
    if (!existsSync(program)) {
      const partial = `${program}.${process.pid}`;
      await runCompiler(compiler, [...source.flags, join(source.folder, source.name), '-o', partial]);
      renameSync(partial, program);
    }
    const { status, stdout } = spawnSync(program, { encoding: 'utf8' });
    return status === 0 ? stdout.trim().split('\n') : undefined;
  } catch {
    return undefined;
  }
}

/** For this machine alone: its fastest set and those that are compiled already. All where the machine cannot be asked. */
export async function setsOfThisMachine(compiler, arch = process.arch) {
  const runnable = await runnableSets(compiler);
  if (runnable === undefined) return instructionSets(arch);
  const version = versionOf(compiler);
  const isCompiled = (set) =>
    kernelsOf(arch, set).every((source) => existsSync(objectOf({ compiler, version, arch }, source)));
  return instructionSets(arch).filter((set) => set === runnable.at(-1) || isCompiled(set));
}

/** Node's headers, wherever npm put them: in this package's modules, or in another program's. */
function headerFlags() {
  const headerPackage = createRequire(import.meta.url).resolve('node-api-headers/package.json');
  return ['-I', join(dirname(headerPackage), 'include')];
}

/**
 * For this machine, if no other is named, with the kernels of all instruction sets, if none are. `spell` gives the flags of a
 * source as the compiler knows them; `headers` resolves when Node's headers are installed.
 * @param {{ compiler: string | string[], output: string, arch?: string, platform?: string, sets?: string[],
 *   spell?: (flags: string[]) => string[], extraFlags?: string[], simulatesGpu?: boolean, shared?: string[] | undefined, linkFlags?: string[], headers?: Promise<void>,
 *   progress?: { add(count: number): void, done(): void } }} options
 * @returns {Promise<boolean>} whether anything was built
 */
export async function buildNative({
  compiler,
  output,
  arch = process.arch,
  platform = process.platform,
  sets = instructionSets(arch),
  spell = (flags) => flags,
  extraFlags = [],
  simulatesGpu = false,
  shared = sharedFlags[platform] ?? ['-shared', '-pthread'],
  linkFlags = platform === 'linux' ? openingFlags : [],
  headers = Promise.resolve(),
  progress = noProgress,
}) {
  const compile = (sources, moreFlags = []) => {
    const spelled = sources.map((source) => ({
      ...source,
      flags: spell([...source.flags, ...moreFlags, ...extraFlags]),
    }));
    return compileObjects({ compiler, arch, sources: spelled, progress });
  };
  const calling = unitOf(callingUnit, callingUnitFlags);
  const computing = unitOf(computingUnit);
  const simulator = simulatesGpu ? simulatorUnits.map((unit) => unitOf(unit, simulatorUnitFlags)) : [];
  const compiled = await Promise.all([
    // What takes longest comes first.
    compile([...simulator, ...kernelSources(arch, sets), computing]),
    headers.then(() => compile([calling], [...headerFlags(), ...(simulatesGpu ? simulatorFlags : [])])),
  ]);
  const objects = compiled.flat();
  const linked = hashOf([...objects, [...shared, ...extraFlags, ...linkFlags].join(' ')]);
  const stamp = `${output}.stamp`;
  if (existsSync(output) && existsSync(stamp) && readFileSync(stamp, 'utf8') === linked) return false;
  const partial = `${output}.${process.pid}`;
  await runCompiler(compiler, [...shared, ...extraFlags, ...objects, ...linkFlags, '-o', partial]);
  renameSync(partial, output);
  writeFileSync(stamp, linked);
  return true;
}

/** The addon of tests, whose GPU is simulated; only its kernels for GPUs matter. `headers` as for `buildNative`. */
export async function buildSimulatedGpu(output, { progress = noProgress, headers = Promise.resolve() } = {}) {
  const compiler = findCompiler();
  if (compiler === undefined) throw new Error('no C++ compiler found (c++, g++ or clang++)');
  return buildNative({ compiler, output, sets: ['scalar'], simulatesGpu: true, headers, progress });
}
