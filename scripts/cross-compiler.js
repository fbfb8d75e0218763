// The compiler that makes addons for machines other than this one: Zig's clang, which brings the headers and libraries
// of each, so that what it links runs on old systems and needs no C++ library at all.

import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { instructionSets, openingFlags } from './build-native.js';

const root = fileURLToPath(new URL('..', import.meta.url));
const exportsFile = join(root, 'native', 'addon', 'exports.map');

// Older than any system that runs Node 20. Names are those of `process.platform` and `process.arch`.
const triples = {
  'linux-x64': 'x86_64-linux-gnu.2.17',
  'linux-arm64': 'aarch64-linux-gnu.2.17',
  'darwin-arm64': 'aarch64-macos.11.0',
  'darwin-x64': 'x86_64-macos.11.0',
  'win32-x64': 'x86_64-windows-gnu',
};

/** The systems that the package brings an addon for. */
export const prebuiltTargets = Object.entries(triples).map(([name, triple]) => {
  const [platform, arch] = name.split('-');
  return { name, platform, arch, triple, file: `${name}.node` };
});

/** AMX tiles need a permission that is only requested on Linux. */
export function targetSets({ platform, arch }) {
  return instructionSets(arch).filter((set) => set !== 'amx' || platform === 'linux');
}

export function findZig() {
  const candidates = process.env.ZIG ? [process.env.ZIG.split(' ')] : [['zig'], ['python3', '-m', 'ziglang']];
  return candidates.find(
    ([program, ...words]) => spawnSync(program, [...words, 'version'], { stdio: 'ignore' }).status === 0,
  );
}

export const noZig =
  'prebuilt addons need Zig, which compiles for other machines: pip install ziglang, or set ZIG to where it is';

export function crossCompiler(zig, { triple }) {
  return [...zig, 'c++', '-target', triple];
}

export function crossFlags(flags) {
  return [
    // It has its own names of processors.
    ...flags.map((flag) => flag.replace(/^-march=armv8\.(\d)-a\+/, '-mcpu=generic+v8_$1a+')),
    '-g0',
    '-fno-sanitize=undefined',
    '-Wno-unknown-warning-option',
  ];
}

/** Node has its own C++ library: symbols of the one in the addon must stay hidden. */
export function crossLinkFlags({ platform }) {
  if (platform === 'linux') return ['-s', `-Wl,--version-script=${exportsFile}`, ...openingFlags];
  // The linker also writes an import library, to its working directory.
  if (platform === 'win32') return ['-s', `-Wl,--out-implib,${join(root, 'build', 'chairlift.lib')}`];
  // Otherwise the linker would use the temporary file name.
  return ['-s', '-Wl,-install_name,@rpath/chairlift.node'];
}

/** Zig's linker has no bundles; Node loads shared libraries as well. */
export function crossSharedFlags({ platform }) {
  return platform === 'darwin' ? ['-shared', '-Wl,-undefined,dynamic_lookup'] : undefined;
}
