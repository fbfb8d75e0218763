// The fault simulation: a whole fleet in virtual time, from a seed. Compiles the program in test/simulation and runs it.
// Usage: node scripts/simulate-faults.js --seconds N --seed S, on a checkout that is set up.

import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';

const root = fileURLToPath(new URL('..', import.meta.url));
const compiler = join(root, 'node_modules', 'typescript', 'bin', 'tsc');

const { status } = spawnSync(process.execPath, [compiler, '-p', 'tsconfig.simulation.json'], {
  cwd: root,
  stdio: ['ignore', 2, 2],
});
if (status !== 0) process.exit(status ?? 1);

const program = join(root, 'build', 'simulation', 'test', 'simulation', 'run.js');
const { simulate } = await import(pathToFileURL(program).href);
process.exitCode = await simulate(process.argv.slice(2), root);
