// What making a package needs of this machine, asked before anything that takes minutes.

import { spawnSync } from 'node:child_process';
import { existsSync, statfsSync } from 'node:fs';
import { dirname } from 'node:path';
import { findCompiler } from './build-native.js';
import { findZig, noZig, prebuiltTargets } from './cross-compiler.js';

const GIB = 2 ** 30;
/** Packages of npm, objects, Zig's C++ library for each system, CUDA's compiler; measured, and half as much again. */
const BYTES_FOR_ALL = 1.5 * GIB;
const BYTES_FOR_ONE = 0.75 * GIB;

/**
 * The systems to make an addon for, Zig or, for this platform alone, the system's compiler, and a line for each thing
 * that is missing. `folders` are those that are written to.
 */
export function packageNeeds({
  isThisPlatform,
  folders,
  bytes = isThisPlatform ? BYTES_FOR_ONE : BYTES_FOR_ALL,
}) {
  const { platform, arch } = process;
  const isOwn = (target) => target.platform === platform && target.arch === arch;
  const targets = isThisPlatform ? prebuiltTargets.filter(isOwn) : prebuiltTargets;
  const zig = findZig();
  const compiler = isThisPlatform && zig === undefined ? findCompiler() : undefined;
  const missing = [];
  if (targets.length === 0) {
    const names = prebuiltTargets.map(({ name }) => name).join(', ');
    missing.push(`packages are made for ${names}, and this is ${platform}-${arch}`);
  }
  if (zig === undefined && compiler === undefined) {
    missing.push(
      isThisPlatform
        ? 'an addon needs a C++ compiler: c++, g++ or clang++, or Zig (pip install ziglang, or set ZIG to where it is)'
        : `${noZig}; with --this-platform the system's compiler will do`,
    );
  }
  if (spawnSync('npm', ['--version'], { stdio: 'ignore', shell: platform === 'win32' }).status !== 0) {
    missing.push('npm is not on the PATH');
  }
  for (const folder of folders) missing.push(...lackOfSpace(folder, bytes));
  return { targets, zig, compiler, missing: [...new Set(missing)] };
}

function lackOfSpace(folder, bytes) {
  let there = folder;
  while (!existsSync(there)) there = dirname(there);
  const { bavail, bsize } = statfsSync(there);
  if (bavail * bsize >= bytes) return [];
  const inGib = (count) => `${(count / GIB).toFixed(1)} GiB`;
  return [`${there} has ${inGib(bavail * bsize)} of free space; ${inGib(bytes)} are needed`];
}
