// Installs the package `webgpu` (Dawn, about 50 MB) in build/webgpu, outside the project's own dependencies: only machines with
// a GPU need it.

import { spawn } from 'node:child_process';
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('..', import.meta.url));
const folder = join(root, 'build', 'webgpu');

/** Whether Metal, Direct3D or Vulkan on real hardware can be expected. */
export function isGpuLikely() {
  if (process.platform === 'darwin' || process.platform === 'win32') return true;
  const hasRenderer =
    existsSync('/dev/dri') && readdirSync('/dev/dri').some((name) => name.startsWith('render'));
  // The last one is Windows' GPU in WSL.
  return (
    hasRenderer ||
    ['/proc/driver/nvidia/version', '/dev/nvidiactl', '/dev/dxg'].some((path) => existsSync(path))
  );
}

/** False, with the reason logged, where it cannot be installed. */
export async function installGpuPackage(progress) {
  const { peerDependencies } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));
  const wanted = peerDependencies.webgpu;
  const installed = join(folder, 'node_modules', 'webgpu', 'package.json');
  if (existsSync(installed) && JSON.parse(readFileSync(installed, 'utf8')).version === wanted) return true;
  mkdirSync(folder, { recursive: true });
  writeFileSync(join(folder, 'package.json'), '{ "private": true }\n');
  const succeeded = await progress.during(`installing webgpu ${wanted} for the GPU`, () => install(wanted));
  if (!succeeded) progress.log('webgpu could not be installed: the processor will serve.');
  return succeeded;
}

function install(version) {
  const flags = ['--no-audit', '--no-fund', '--ignore-scripts', '--loglevel=error', '--no-save'];
  return new Promise((resolve) => {
    const npm = spawn('npm', ['install', ...flags, `webgpu@${version}`], {
      cwd: folder,
      stdio: ['ignore', 2, 2],
      shell: process.platform === 'win32',
    });
    npm.on('error', () => resolve(false));
    npm.on('exit', (code) => resolve(code === 0));
  });
}
