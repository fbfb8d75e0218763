// The compiler that makes addons for machines other than this one: Zig's clang, which brings the headers and libraries
// of each, so that what it links runs with an old C library and needs no C++ library at all.

import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';

const exportsFile = fileURLToPath(new URL('../native/addon/exports.map', import.meta.url));

// Older than any system that runs Node 20.
const glibc = '2.17';
const triples = {
  x64: `x86_64-linux-gnu.${glibc}`,
  arm64: `aarch64-linux-gnu.${glibc}`,
};

export const prebuiltArchitectures = Object.keys(triples);

/** As the loader looks for it. */
export function prebuiltName(arch) {
  return `linux-${arch}.node`;
}

/** The words that start Zig, or undefined where there is none. */
export function findZig() {
  const candidates = process.env.ZIG ? [process.env.ZIG.split(' ')] : [['zig'], ['python3', '-m', 'ziglang']];
  return candidates.find(
    ([program, ...words]) => spawnSync(program, [...words, 'version'], { stdio: 'ignore' }).status === 0,
  );
}

export const noZig =
  'prebuilt addons need Zig, which compiles for other machines: pip install ziglang, or set ZIG to where it is';

export function crossCompiler(zig, arch) {
  return [...zig, 'c++', '-target', triples[arch]];
}

/** The flags of a source, as this compiler spells them. */
export function crossFlags(flags) {
  return [
    // It names processors its own way.
    ...flags.map((flag) => flag.replace(/^-march=armv8\.(\d)-a\+/, '-mcpu=generic+v8_$1a+')),
    '-g0',
    '-fno-sanitize=undefined',
    '-Wno-unknown-warning-option',
  ];
}

/** Node has a C++ library of its own: nothing of the one in the addon may be seen from outside, or be taken from there. */
export const crossLinkFlags = ['-s', `-Wl,--version-script=${exportsFile}`];
