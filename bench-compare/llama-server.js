// llama-server: the user's own, or one compiled here of the source that node-llama-cpp brings along.

import { execFileSync, spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, renameSync, rmSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { give } from './harness.js';

const folder = fileURLToPath(new URL('build/', import.meta.url));
const source = fileURLToPath(new URL('node_modules/node-llama-cpp/llama/gitRelease.bundle', import.meta.url));
const built = join(folder, 'llama-server');

/** With these GCC 12 compiles llama.cpp's AMX kernels to what the processor knows; other compilers do not mind. */
const GCC_FLAGS = '-fno-dse -fno-tree-dse';

/**
 * @param {string | undefined} own the user's
 * @returns {string} path of the program
 */
export function findLlamaServer(own) {
  if (own !== undefined) return existsSync(own) ? own : give(`--llama-server: there is no ${own}`);
  const { status, stdout } = spawnSync('which', ['llama-server'], { encoding: 'utf8' });
  if (status === 0) return stdout.trim();
  return existsSync(built) ? built : build();
}

function build() {
  if (!existsSync(source)) {
    give('there is no llama-server: npm install --prefix bench-compare, or give one with --llama-server');
  }
  for (const tool of ['git', 'cmake']) {
    if (spawnSync(tool, ['--version']).status !== 0) give(`${tool} is needed to compile llama-server`);
  }
  process.stderr.write(`compiling llama-server into ${folder}, once; this takes minutes\n`);
  mkdirSync(folder, { recursive: true });
  const checkout = join(folder, 'llama.cpp');
  const work = join(folder, 'work');
  rmSync(checkout, { recursive: true, force: true });
  const run = (/** @type {string} */ program, /** @type {string[]} */ ...args) =>
    execFileSync(program, args, { stdio: ['ignore', 'ignore', 'inherit'] });
  run('git', 'clone', '--quiet', '--config', 'advice.detachedHead=false', source, checkout);
  const isGcc = /gcc|g\+\+|Free Software/i.test(spawnSync('c++', ['--version'], { encoding: 'utf8' }).stdout);
  const flags = isGcc ? [`-DCMAKE_C_FLAGS=${GCC_FLAGS}`, `-DCMAKE_CXX_FLAGS=${GCC_FLAGS}`] : [];
  const settings = [
    'CMAKE_BUILD_TYPE=Release',
    'BUILD_SHARED_LIBS=OFF',
    'GGML_NATIVE=ON',
    'LLAMA_BUILD_APP=OFF',
    'LLAMA_BUILD_EXAMPLES=OFF',
    'LLAMA_BUILD_TESTS=OFF',
    'LLAMA_OPENSSL=OFF',
    'LLAMA_USE_PREBUILT_UI=OFF',
  ].map((setting) => `-D${setting}`);
  run('cmake', '-S', checkout, '-B', work, ...settings, ...flags);
  run('cmake', '--build', work, '--target', 'llama-server', '--parallel', String(availableParallelism()));
  renameSync(join(work, 'bin', 'llama-server'), built);
  for (const left of [checkout, work]) rmSync(left, { recursive: true, force: true });
  return built;
}

/** @param {string} program */
export function llamaServerVersion(program) {
  const { stdout, stderr } = spawnSync(program, ['--version'], { encoding: 'utf8' });
  return /version: (.+)/.exec(`${stdout}${stderr}`)?.[1] ?? dirname(program);
}
