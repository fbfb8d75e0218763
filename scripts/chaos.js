// The chaos run: the real server under everything that can happen to it. Compiles the program in test/chaos and runs it.
// Usage: node scripts/chaos.js [--minutes N] [--seed S], on a checkout that is set up.

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

const program = join(root, 'build', 'chaos', 'test', 'chaos', 'run.js');
const { chaos } = await import(pathToFileURL(program).href);
process.exitCode = await chaos(process.argv.slice(2), root);
