// The chaos run: the real server under everything that can happen to it. Compiles the program in test/chaos and runs it.
// Usage: node scripts/chaos.js [tiers] [--minutes N] [--seed S], on a checkout that is set up.

import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';

const root = fileURLToPath(new URL('..', import.meta.url));
const compiler = join(root, 'node_modules', 'typescript', 'bin', 'tsc');

const { status } = spawnSync(process.execPath, [compiler, '-p', 'tsconfig.chaos.json'], {
  cwd: root,
  stdio: ['ignore', 2, 2],
});
if (status !== 0) process.exit(status ?? 1);

const programs = join(root, 'build', 'chaos', 'test', 'chaos');
const load = (...path) => import(pathToFileURL(join(programs, ...path)).href);
const [first, ...rest] = process.argv.slice(2);
process.exitCode =
  first === 'tiers'
    ? await (await load('tiers', 'run.js')).chaosOfTiers(rest, root)
    : await (await load('run.js')).chaos(process.argv.slice(2), root);
