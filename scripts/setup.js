// Makes a checkout ready to run: installs packages, compiles TypeScript, builds the page and the C++ addon, and brings what
// a GPU needs where one is likely, or asked for with --gpu. Needs nothing but Node, does only what has changed, and is quick
// when nothing has. As an installed package it takes the addon that came along, where that loads; --compile or
// CHAIRLIFT_COMPILE=1 builds one all the same.

import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { buildNative, findCompiler } from './build-native.js';
import { installGpuPackage, isGpuLikely } from './gpu-package.js';

const root = fileURLToPath(new URL('..', import.meta.url));
const log = (line) => process.stderr.write(`chairlift set-up: ${line}\n`);

function fail(line) {
  log(line);
  process.exit(1);
}

function run(command, args) {
  const result = spawnSync(command, args, {
    cwd: root,
    stdio: ['ignore', 2, 2],
    shell: process.platform === 'win32',
  });
  return result.status === 0;
}

function upToDate(stampName, key) {
  const stamp = join(root, stampName);
  return existsSync(stamp) && readFileSync(stamp, 'utf8') === key;
}

function installPackages() {
  const key = createHash('sha256')
    .update(readFileSync(join(root, 'package-lock.json')))
    .update(process.version)
    .digest('hex');
  const stamp = 'node_modules/.chairlift-stamp';
  if (upToDate(stamp, key)) return;
  log('installing packages');
  if (!run('npm', ['ci', '--no-audit', '--no-fund', '--loglevel=error'])) {
    fail('npm ci failed; see above. Check the network, or run npm ci yourself.');
  }
  writeFileSync(join(root, stamp), key);
}

/** Changes with any file of the folder, and with what else a build depends on. */
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

function compileTypeScript() {
  const dist = join(root, 'dist');
  const key = sourceKey('src', ['tsconfig.json', 'tsconfig.build.json', 'package-lock.json']);
  const stamp = 'build/typescript.stamp';
  if (upToDate(stamp, key) && existsSync(join(dist, 'index.js'))) return;
  log('compiling TypeScript');
  // A file that has left src must leave dist too; the page has a build of its own.
  for (const name of existsSync(dist) ? readdirSync(dist) : []) {
    if (name !== 'web') rmSync(join(dist, name), { recursive: true, force: true });
  }
  if (!run(process.execPath, ['node_modules/typescript/bin/tsc', '-p', 'tsconfig.build.json'])) {
    fail('the TypeScript compiler reported errors; see above.');
  }
  mkdirSync(join(root, 'build'), { recursive: true });
  writeFileSync(join(root, stamp), key);
}

function buildPage() {
  const key = sourceKey('web', ['tsconfig.json', 'package-lock.json', 'src/text/visible.ts']);
  const stamp = 'build/web.stamp';
  if (upToDate(stamp, key) && existsSync(join(root, 'dist/web/index.html'))) return;
  log('building the page');
  if (!run(process.execPath, ['node_modules/vite/bin/vite.js', 'build', 'web', '--logLevel', 'warn'])) {
    fail('the page could not be built; see above.');
  }
  writeFileSync(join(root, stamp), key);
}

/** In a checkout the sources count, which change. It is tried in another process, which it may end. */
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

async function compileNative() {
  const compiler = findCompiler();
  if (!compiler) {
    log('no C++ compiler found (c++, g++ or clang++): the slower TypeScript backend will serve.');
    return;
  }
  mkdirSync(join(root, 'build'), { recursive: true });
  try {
    await buildNative({ compiler, output: join(root, 'build', 'chairlift.node'), log });
  } catch (error) {
    rmSync(join(root, 'build', 'chairlift.node'), { force: true });
    const reason = error instanceof Error ? error.message : String(error);
    log(`the C++ addon could not be built (${reason}): the slower TypeScript backend will serve.`);
  }
}

// As a dependency of another program the packages and the compiled TypeScript are there already.
const nativeOnly = process.argv.includes('--native');
if (!nativeOnly) {
  installPackages();
  compileTypeScript();
  buildPage();
}
const mustCompile = process.argv.includes('--compile') || process.env.CHAIRLIFT_COMPILE === '1';
if (mustCompile || !hasFittingPrebuilt()) await compileNative();
if (process.argv.includes('--gpu') || isGpuLikely()) installGpuPackage(log);
