// SwiftShader, a Vulkan driver that runs on the processor, in build/swiftshader. It comes out of a package that carries it
// beside a browser; only the driver is kept. x64 Linux alone.

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

const PACKAGE = '@sparticuz/chromium@153.0.0';
const folder = fileURLToPath(new URL('../build/swiftshader', import.meta.url));

function run(command, args, cwd) {
  const { status } = spawnSync(command, args, { cwd, stdio: ['ignore', 'ignore', 2] });
  if (status !== 0) throw new Error(`${command} ${args[0]} failed`);
}

/** Throws where it cannot be had. */
export function bringSwiftShader(log) {
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
