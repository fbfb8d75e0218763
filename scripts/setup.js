// Makes a checkout ready to run: installs packages, compiles TypeScript, builds the C++ addon, and brings what a GPU
// needs where one is likely, or asked for with --gpu. Needs nothing but Node, does only what has changed, and is quick
// when nothing has.

import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
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

function sourceKey() {
  const hash = createHash('sha256');
  const visit = (folder) => {
    for (const entry of readdirSync(folder, { withFileTypes: true })) {
      const path = join(folder, entry.name);
      if (entry.isDirectory()) visit(path);
      else hash.update(`${path}:${statSync(path).mtimeMs}:${statSync(path).size};`);
    }
  };
  visit(join(root, 'src'));
  for (const name of ['tsconfig.json', 'tsconfig.build.json', 'package-lock.json']) {
    hash.update(readFileSync(join(root, name)));
  }
  return hash.digest('hex');
}

function compileTypeScript() {
  const key = sourceKey();
  const stamp = 'build/typescript.stamp';
  if (upToDate(stamp, key) && existsSync(join(root, 'dist'))) return;
  log('compiling TypeScript');
  // A file that has left src must leave dist too.
  rmSync(join(root, 'dist'), { recursive: true, force: true });
  if (!run(process.execPath, ['node_modules/typescript/bin/tsc', '-p', 'tsconfig.build.json'])) {
    fail('the TypeScript compiler reported errors; see above.');
  }
  mkdirSync(join(root, 'build'), { recursive: true });
  writeFileSync(join(root, stamp), key);
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
}
await compileNative();
if (process.argv.includes('--gpu') || isGpuLikely()) installGpuPackage(log);
