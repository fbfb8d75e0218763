// The package `webgpu` (Dawn, about 50 MB) in build/webgpu, beside the project's own dependencies: only machines with a
// GPU need it.

import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('..', import.meta.url));
const folder = join(root, 'build', 'webgpu');

/** Where Metal, Direct3D or Vulkan on real hardware can be expected. */
export function isGpuLikely() {
  if (process.platform === 'darwin' || process.platform === 'win32') return true;
  const hasRenderer =
    existsSync('/dev/dri') && readdirSync('/dev/dri').some((name) => name.startsWith('render'));
  // The last one is Windows' own GPU, seen from its Linux.
  return (
    hasRenderer ||
    ['/proc/driver/nvidia/version', '/dev/nvidiactl', '/dev/dxg'].some((path) => existsSync(path))
  );
}

/** False, and the reason told, where it cannot be had. */
export function installGpuPackage(log) {
  const { peerDependencies } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));
  const wanted = peerDependencies.webgpu;
  const installed = join(folder, 'node_modules', 'webgpu', 'package.json');
  if (existsSync(installed) && JSON.parse(readFileSync(installed, 'utf8')).version === wanted) return true;
  log(`installing webgpu ${wanted} for the GPU`);
  mkdirSync(folder, { recursive: true });
  writeFileSync(join(folder, 'package.json'), '{ "private": true }\n');
  const flags = ['--no-audit', '--no-fund', '--ignore-scripts', '--loglevel=error', '--no-save'];
  const { status } = spawnSync('npm', ['install', ...flags, `webgpu@${wanted}`], {
    cwd: folder,
    stdio: ['ignore', 2, 2],
    shell: process.platform === 'win32',
  });
  if (status !== 0) log('webgpu could not be installed: the processor will serve.');
  return status === 0;
}
