// Makes the npm package with addons for Linux, macOS and Windows, so that installing it needs no compiler, and with machine code
// for NVIDIA's GPUs where CUDA's compiler can be had. Usage: node scripts/package.js, which needs Zig.

import { spawnSync } from 'node:child_process';
import { mkdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { buildNative } from './build-native.js';
import { checkAddonFile } from './check-addon.js';
import {
  crossCompiler,
  crossFlags,
  crossLinkFlags,
  crossSharedFlags,
  findZig,
  noZig,
  prebuiltTargets,
  targetSets,
} from './cross-compiler.js';
import { findCudaCompiler, noCudaCompiler, writeMachineCode } from './cuda-kernels.js';
import { writeFormula } from './homebrew.js';
import { Progress } from './progress.js';

const root = fileURLToPath(new URL('..', import.meta.url));
const progress = new Progress('chairlift package');
const log = (line) => progress.log(line);

function fail(line) {
  log(line);
  process.exit(1);
}

function sizeOf(path) {
  return `${(statSync(path).size / 1e6).toFixed(1)} MB`;
}

async function buildAddons(zig) {
  const folder = join(root, 'prebuilt');
  mkdirSync(folder, { recursive: true });
  for (const target of prebuiltTargets) {
    const { name, arch, platform, file } = target;
    const output = join(folder, file);
    await progress.during(`compiling C++ for ${name}`, (pieces) =>
      buildNative({
        compiler: crossCompiler(zig, target),
        output,
        arch,
        platform,
        sets: targetSets(target),
        spell: crossFlags,
        shared: crossSharedFlags(target),
        linkFlags: crossLinkFlags(target),
        progress: pieces,
      }),
    );
    log(`${file}, ${sizeOf(output)}: ${checkAddonFile(output, target)}`);
  }
}

/** Without them the package is as good but for its first start on a GPU: drivers compile the PTX that it has. */
async function buildCudaKernels() {
  const output = join(root, 'prebuilt', 'cuda-kernels.br');
  rmSync(output, { force: true });
  const compiler = findCudaCompiler();
  if (compiler === undefined) {
    log(`no machine code for NVIDIA's GPUs: ${noCudaCompiler}.`);
    return;
  }
  await progress.during('compiling CUDA kernels', () => writeMachineCode(compiler, output));
  log(`cuda-kernels.br, ${sizeOf(output)}`);
}

function setUp() {
  const { status } = spawnSync(process.execPath, [join(root, 'scripts', 'setup.js')], { stdio: 'inherit' });
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

// Fails before anything that takes minutes.
const zig = findZig();
if (!zig) fail(noZig);
setUp();
writeManual();
await buildAddons(zig).catch((error) => fail(error.message));
await buildCudaKernels().catch((error) => fail(error.message));
const { file, version } = pack();
log(`${file}, ${sizeOf(file)}`);
log(writeFormula(file, version, process.env.CHAIRLIFT_PACKAGE_URL));
