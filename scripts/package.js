// Makes the npm package with addons for Linux, macOS and Windows, so that installing it needs no compiler. Usage: node
// scripts/package.js, which needs Zig.

import { spawnSync } from 'node:child_process';
import { mkdirSync, readFileSync, rmSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { buildNative } from './build-native.js';
import { checkAddonFile } from './check-addon.js';
import {
  crossCompiler,
  crossFlags,
  crossLinkFlags,
  crossSharedFlags,
  findZig,
  noZig,
  prebuiltTargets,
  targetSets,
} from './cross-compiler.js';
import { writeFormula } from './homebrew.js';
import { Progress } from './progress.js';

const root = fileURLToPath(new URL('..', import.meta.url));
const progress = new Progress('chairlift package');
const log = (line) => progress.log(line);

function fail(line) {
  log(line);
  process.exit(1);
}

function sizeOf(path) {
  return `${(statSync(path).size / 1e6).toFixed(1)} MB`;
}

async function buildAddons(zig) {
  const folder = join(root, 'prebuilt');
  mkdirSync(folder, { recursive: true });
  for (const target of prebuiltTargets) {
    const { name, arch, platform, file } = target;
    const output = join(folder, file);
    await progress.during(`compiling C++ for ${name}`, (pieces) =>
      buildNative({
        compiler: crossCompiler(zig, target),
        output,
        arch,
        platform,
        sets: targetSets(target),
        spell: crossFlags,
        shared: crossSharedFlags(target),
        linkFlags: crossLinkFlags(target),
        progress: pieces,
      }),
    );
    log(`${file}, ${sizeOf(output)}: ${checkAddonFile(output, target)}`);
  }
}

function setUp() {
  const { status } = spawnSync(process.execPath, [join(root, 'scripts', 'setup.js')], { stdio: 'inherit' });
  if (status !== 0) fail('the checkout could not be set up; see above.');
}

/** Without npm scripts: everything is built. */
function pack() {
  // It contains nothing else: images are made of it.
  const folder = join(root, 'build', 'package');
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder, { recursive: true });
  const { status } = spawnSync(
    'npm',
    ['pack', '--ignore-scripts', '--silent', '--pack-destination', folder],
    {
      cwd: root,
      stdio: ['ignore', 2, 2],
    },
  );
  if (status !== 0) fail('npm pack failed; see above.');
  const { name, version } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));
  return { file: join(folder, `${name}-${version}.tgz`), version };
}

// Fails before anything that takes minutes.
const zig = findZig();
if (!zig) fail(noZig);
setUp();
await buildAddons(zig).catch((error) => fail(error.message));
const { file, version } = pack();
log(`${file}, ${sizeOf(file)}`);
log(writeFormula(file, version, process.env.CHAIRLIFT_PACKAGE_URL));
