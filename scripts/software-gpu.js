// For tests: SwiftShader, a Vulkan driver that runs on the processor, in build/swiftshader, and the package webgpu. It
// comes out of a package that carries it beside a browser; only the driver is kept. x64 Linux alone.

import { spawnSync } from 'node:child_process';
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { brotliDecompressSync } from 'node:zlib';
import { installGpuPackage } from './gpu-package.js';
import { Progress } from './progress.js';

const PACKAGE = '@sparticuz/chromium@153.0.0';
const folder = fileURLToPath(new URL('../build/swiftshader', import.meta.url));
const progress = new Progress('chairlift tests');
const log = (line) => progress.log(line);

function run(command, args, cwd) {
  const { status } = spawnSync(command, args, { cwd, stdio: ['ignore', 'ignore', 2] });
  if (status !== 0) throw new Error(`${command} ${args[0]} failed`);
}

function bringSwiftShader() {
  if (existsSync(join(folder, 'libvk_swiftshader.so'))) return;
  log(`fetching SwiftShader out of ${PACKAGE}`);
  const work = mkdtempSync(join(tmpdir(), 'chairlift-swiftshader-'));
  try {
    run('npm', ['pack', '--silent', PACKAGE], work);
    const [archive] = readdirSync(work).filter((name) => name.endsWith('.tgz'));
    run('tar', ['xzf', archive, 'package/bin/swiftshader.tar.br'], work);
    const packed = readFileSync(join(work, 'package/bin/swiftshader.tar.br'));
    writeFileSync(join(work, 'swiftshader.tar'), brotliDecompressSync(packed));
    mkdirSync(folder, { recursive: true });
    run('tar', ['xf', join(work, 'swiftshader.tar'), '-C', folder], work);
  } finally {
    rmSync(work, { recursive: true, force: true });
  }
}

if (process.platform === 'linux' && process.arch === 'x64') {
  try {
    if (await installGpuPackage(progress)) bringSwiftShader();
  } catch (error) {
    log(
      `no software GPU, so tests of the GPU are skipped: ${error instanceof Error ? error.message : error}`,
    );
  }
}
