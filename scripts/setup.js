// Makes a checkout ready to run: installs packages, compiles TypeScript, builds the page and the C++ addon, and brings what
// a GPU needs where one is likely, or asked for with --gpu. Needs nothing but Node, does only what has changed, and is quick
// when nothing has. The addon of a checkout has kernels for this machine; --all-kernels compiles those of every instruction
// set. --tests brings what tests want: those kernels, one more addon, whose GPU is simulated, the GPU in software that
// others run on, and their packages, which --test-packages brings alone; --no-native compiles no addon. As an installed package it
// takes the addon that came along, where that loads; --compile or CHAIRLIFT_COMPILE=1 builds one all the same, for every machine
// of this architecture: an image may run elsewhere.

import { spawn, spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import {
  buildNative,
  buildSimulatedGpu,
  findCompiler,
  instructionSets,
  setsOfThisMachine,
} from './build-native.js';
import { installGpuPackage, isGpuLikely } from './gpu-package.js';
import { installPackages } from './install-packages.js';
import { Progress } from './progress.js';

const root = fileURLToPath(new URL('..', import.meta.url));
const progress = new Progress('chairlift set-up');
const log = (line) => progress.log(line);
const has = (flag) => process.argv.includes(flag);
const isForTests = has('--tests');

/** Its reason has been printed. */
class SetupError extends Error {}

function fail(line) {
  log(line);
  throw new SetupError(line);
}

// Tells npm's postinstall script that set-up is running.
const UNDER_WAY = 'CHAIRLIFT_SETUP_UNDER_WAY';

function run(command, args) {
  return new Promise((resolve) => {
    const child = spawn(command, args, {
      cwd: root,
      stdio: ['ignore', 2, 2],
      env: { ...process.env, [UNDER_WAY]: '1' },
      shell: process.platform === 'win32',
    });
    child.on('error', () => resolve(false));
    child.on('exit', (code) => resolve(code === 0));
  });
}

function upToDate(stampName, key) {
  const stamp = join(root, stampName);
  return existsSync(stamp) && readFileSync(stamp, 'utf8') === key;
}

async function bringPackages() {
  const npm = (args) => progress.during('installing packages', () => run('npm', args));
  if (!(await installPackages(root, { forTests: isForTests || has('--test-packages'), npm }))) {
    fail('npm ci failed; see above. Check the network, or run npm ci yourself.');
  }
}

/** Changes with any file of the folder and any other input of the build. */
function sourceKey(folder, names) {
  const hash = createHash('sha256');
  const visit = (within) => {
    for (const entry of readdirSync(within, { withFileTypes: true })) {
      const path = join(within, entry.name);
      if (entry.name === 'node_modules') continue;
      if (entry.isDirectory()) visit(path);
      else hash.update(`${path}:${statSync(path).mtimeMs}:${statSync(path).size};`);
    }
  };
  visit(join(root, folder));
  for (const name of names) hash.update(readFileSync(join(root, name)));
  return hash.digest('hex');
}

async function compileTypeScript() {
  const dist = join(root, 'dist');
  const key = sourceKey('src', ['tsconfig.json', 'tsconfig.build.json', 'package-lock.json']);
  const stamp = 'build/typescript.stamp';
  if (upToDate(stamp, key) && existsSync(join(dist, 'index.js'))) return;
  // A file removed from src must leave dist; the page has its own build.
  for (const name of existsSync(dist) ? readdirSync(dist) : []) {
    if (name !== 'web') rmSync(join(dist, name), { recursive: true, force: true });
  }
  // `npm run typecheck` checks types; that takes twice as long as everything else.
  await compile('compiling TypeScript', ['-p', 'tsconfig.build.json', '--noCheck']);
  writeFileSync(join(root, stamp), key);
}

/** Outside dist, which is published. */
async function compileBenchmarks() {
  const key = sourceKey('bench', ['tsconfig.json', 'tsconfig.bench.json', 'package-lock.json']);
  const stamp = 'build/bench.stamp';
  if (upToDate(stamp, key) && existsSync(join(root, 'build', 'bench'))) return;
  rmSync(join(root, 'build', 'bench'), { recursive: true, force: true });
  await compile('compiling benchmarks', ['-p', 'tsconfig.bench.json']);
  writeFileSync(join(root, stamp), key);
}

async function compile(what, options) {
  const args = ['node_modules/typescript/bin/tsc', ...options];
  if (!(await progress.during(what, () => run(process.execPath, args)))) {
    fail('the TypeScript compiler reported errors; see above.');
  }
}

async function buildPage() {
  const key = sourceKey('web', [
    'tsconfig.json',
    'package-lock.json',
    'src/text/visible.ts',
    'src/engine/live/snapshot.ts',
  ]);
  const stamp = 'build/web.stamp';
  if (upToDate(stamp, key) && existsSync(join(root, 'dist/web/index.html'))) return;
  const args = ['node_modules/vite/bin/vite.js', 'build', 'web', '--logLevel', 'warn'];
  if (!(await progress.during('building the page', () => run(process.execPath, args)))) {
    fail('the page could not be built; see above.');
  }
  writeFileSync(join(root, stamp), key);
}

/** In a checkout sources may change. The addon is loaded in another process, which it may crash. */
function hasFittingPrebuilt() {
  if (existsSync(join(root, 'src')) || !existsSync(join(root, 'prebuilt'))) return false;
  const loader = pathToFileURL(join(root, 'dist', 'compute', 'cpu', 'binding.js')).href;
  const probe = `const { loadAddon } = await import('${loader}');
    const load = loadAddon();
    process.exit(load.available && load.addon.kernels().length > 0 ? 0 : 1);`;
  const { status } = spawnSync(process.execPath, ['--input-type=module', '-e', probe], { stdio: 'ignore' });
  if (status !== 0) log('the C++ addon that came with the package does not fit this system: building one.');
  return status === 0;
}

/** `headers` resolves when Node's headers are installed; everything else is compiled before. */
async function compileNative(headers) {
  const mayRunElsewhere = has('--compile') || process.env.CHAIRLIFT_COMPILE === '1';
  if (!mayRunElsewhere && hasFittingPrebuilt()) return;
  const compiler = findCompiler();
  if (!compiler) {
    log('no C++ compiler found (c++, g++ or clang++): the slower TypeScript backend will serve.');
    return;
  }
  const output = join(root, 'build', 'chairlift.node');
  const isForThisMachine =
    existsSync(join(root, 'src')) && !mayRunElsewhere && !has('--all-kernels') && !isForTests;
  try {
    const sets = isForThisMachine ? await setsOfThisMachine(compiler) : instructionSets(process.arch);
    await progress.during('compiling C++', (pieces) =>
      buildNative({ compiler, output, sets, headers, progress: pieces }),
    );
  } catch (error) {
    // The reason has been printed.
    if (error instanceof SetupError) return;
    rmSync(output, { force: true });
    const reason = error instanceof Error ? error.message : String(error);
    log(`the C++ addon could not be built (${reason}): the slower TypeScript backend will serve.`);
  }
}

/** One after the other: both install the package webgpu. */
async function bringGpu() {
  if (has('--gpu') || isGpuLikely()) await installGpuPackage(progress);
  if (isForTests) await run(process.execPath, ['scripts/software-gpu.js']);
}

/** Without it, tests that need it build it themselves and say why they cannot. `headers` as for `compileNative`. */
async function compileSimulatedGpu(headers) {
  const output = join(root, 'build', 'chairlift-simulated-gpu.node');
  try {
    await progress.during('compiling C++ for tests', (progress) =>
      buildSimulatedGpu(output, { progress, headers }),
    );
  } catch (error) {
    if (error instanceof SetupError) return;
    log(`no simulated GPU: ${error instanceof Error ? error.message : error}`);
  }
}

if (process.env[UNDER_WAY] === '1') process.exit();
mkdirSync(join(root, 'build'), { recursive: true });
// Installed as a dependency, packages and compiled TypeScript are there already.
const packages = has('--native') ? Promise.resolve() : bringPackages();
const parts = [
  // Its slowest file takes a core for half a minute: at the end that core would be alone.
  ...(isForTests ? [compileSimulatedGpu(packages)] : []),
  ...(has('--no-native') ? [] : [compileNative(packages)]),
  ...(has('--native')
    ? []
    : [compileTypeScript, compileBenchmarks, buildPage].map((part) => packages.then(part))),
  packages.then(bringGpu),
];
for (const part of await Promise.allSettled(parts)) {
  if (part.status === 'fulfilled') continue;
  process.exitCode = 1;
  if (!(part.reason instanceof SetupError)) throw part.reason;
}
