// Makes the npm package with addons for Linux, macOS and Windows, so that installing it needs no compiler, and with machine code
// for NVIDIA's GPUs where CUDA's compiler can be had. Usage: node scripts/package.js, which needs Zig; with --this-platform
// the addon of this system alone, by Zig or by the system's compiler.

import { spawnSync } from 'node:child_process';
import { mkdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { homedir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { buildNative } from './build-native.js';
import { checkAddonFile } from './check-addon.js';
import { crossCompiler, crossFlags, crossLinkFlags, crossSharedFlags, targetSets } from './cross-compiler.js';
import { findCudaCompiler, mainUnit, noCudaCompiler, visionUnit, writeMachineCode } from './cuda-kernels.js';
import { writeFormula } from './homebrew.js';
import { packageNeeds } from './package-needs.js';
import { Progress } from './progress.js';

const root = fileURLToPath(new URL('..', import.meta.url));
const isThisPlatform = process.argv.includes('--this-platform');
const began = performance.now();
const progress = new Progress('chairlift package');
const log = (line) => progress.log(line);

function fail(line) {
  log(line);
  process.exit(1);
}

function sizeOf(path) {
  return `${(statSync(path).size / 1e6).toFixed(1)} MB`;
}

/** How Zig compiles for a system; the system's own compiler needs none of it. */
const crossOptions = (zig, target) => ({
  compiler: crossCompiler(zig, target),
  arch: target.arch,
  platform: target.platform,
  spell: crossFlags,
  shared: crossSharedFlags(target),
  linkFlags: crossLinkFlags(target),
});

/** All at once: compilers are as many as there are cores. */
async function buildAddons({ targets, zig, compiler }) {
  const folder = join(root, 'prebuilt');
  // Addons of an earlier package would come along, whatever they are made of.
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder, { recursive: true });
  const build = async (target) => {
    const output = join(folder, target.file);
    const options = zig === undefined ? { compiler } : crossOptions(zig, target);
    const sets = targetSets(target);
    await progress.during(`compiling C++ for ${target.name}`, (pieces) =>
      buildNative({ ...options, output, sets, progress: pieces }),
    );
    const promise =
      zig === undefined
        ? `made by ${compiler}, for systems like this one alone`
        : checkAddonFile(output, target);
    log(`${target.file}, ${sizeOf(output)}: ${promise}`);
  };
  await Promise.all(targets.map(build));
}

/** Without them the package is as good but for its first start on a GPU: drivers compile the PTX that it has. */
async function buildCudaKernels() {
  if (isThisPlatform) {
    log("no machine code for NVIDIA's GPUs: drivers compile the kernels at their first start.");
    return;
  }
  const compiler = findCudaCompiler();
  if (compiler === undefined) {
    log(`no machine code for NVIDIA's GPUs: ${noCudaCompiler}.`);
    return;
  }
  const files = [
    { unit: mainUnit, file: 'cuda-kernels.br' },
    { unit: visionUnit, file: 'cuda-vision.br' },
  ];
  for (const { unit, file } of files) {
    const output = join(root, 'prebuilt', file);
    await progress.during('compiling CUDA kernels', () => writeMachineCode(compiler, unit, output));
    log(`${file}, ${sizeOf(output)}`);
  }
}

function setUp() {
  const { status } = spawnSync(process.execPath, [join(root, 'scripts', 'setup.js'), '--no-native'], {
    stdio: 'inherit',
  });
  if (status !== 0) fail('the checkout could not be set up; see above.');
}

/** From the commands themselves, so that it never says anything else than their help. */
function writeManual() {
  const { status, stdout } = spawnSync(process.execPath, [join(root, 'bin', 'chairlift.js'), 'man'], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  if (status !== 0) fail('the manual page could not be written; see above.');
  writeFileSync(join(root, 'dist', 'chairlift.1'), stdout);
}

/** Without npm scripts: everything is built. */
function pack() {
  // It contains nothing else: images are made of it.
  const folder = join(root, 'build', 'package');
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder, { recursive: true });
  const { status } = spawnSync(
    'npm',
    ['pack', '--ignore-scripts', '--silent', '--pack-destination', folder],
    {
      cwd: root,
      stdio: ['ignore', 2, 2],
    },
  );
  if (status !== 0) fail('npm pack failed; see above.');
  const { name, version } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));
  return { file: join(folder, `${name}-${version}.tgz`), version };
}

const needs = packageNeeds({
  isThisPlatform,
  folders: [join(root, 'build'), process.env.ZIG_GLOBAL_CACHE_DIR ?? join(homedir(), '.cache')],
});
for (const line of needs.missing) log(line);
if (needs.missing.length > 0) fail('nothing was made.');
setUp();
writeManual();
await buildAddons(needs).catch((error) => fail(error.message));
await buildCudaKernels().catch((error) => fail(error.message));
const { file, version } = pack();
log(`${file}, ${sizeOf(file)}, made in ${Math.round((performance.now() - began) / 1000)} s`);
log(writeFormula(file, version, process.env.CHAIRLIFT_PACKAGE_URL));
