// Brings the programs of others that test/clients runs against the server: Python packages in virtual environments, and
// programs from npm, under build/clients. What cannot be had is said in a line, and its tests are skipped.

import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { Progress } from './progress.js';

const root = fileURLToPath(new URL('..', import.meta.url));
const lists = join(root, 'test', 'clients');
const progress = new Progress('chairlift clients');

/** Each has its packages with their versions in a file; aider's exclude those of the others. */
const environments = {
  python: { list: 'requirements.txt', bring: bringPython },
  aider: { list: 'requirements-aider.txt', bring: bringPython },
  npm: { list: 'programs.json', bring: bringPrograms },
};

function run(command, args, options = {}) {
  const { status, error, stderr } = spawnSync(command, args, { encoding: 'utf8', ...options });
  if (error !== undefined) throw error;
  if (status === 0) return;
  const reason =
    stderr
      .trim()
      .split('\n')
      .findLast((line) => line.trim() !== '') ?? `exit code ${status}`;
  throw new Error(`${command} ${args[0]}: ${reason}`);
}

/** By uv: pip takes minutes to find versions that go together. */
function bringPython(folder, list) {
  run(process.env.PYTHON ?? 'python3', ['-m', 'venv', folder]);
  const python = join(folder, 'bin', 'python');
  run(python, ['-m', 'pip', 'install', '--quiet', '--disable-pip-version-check', 'uv']);
  run(python, ['-m', 'uv', 'pip', 'install', '--quiet', '--python', python, '-r', list]);
}

function bringPrograms(folder, list) {
  const { dependencies } = JSON.parse(readFileSync(list, 'utf8'));
  writeFileSync(join(folder, 'package.json'), JSON.stringify({ private: true, dependencies }));
  run('npm', ['install', '--silent', '--no-audit', '--no-fund'], { cwd: folder });
}

for (const [name, { list, bring }] of Object.entries(environments)) {
  const path = join(lists, list);
  const key = createHash('sha256').update(readFileSync(path)).digest('hex');
  const folder = join(root, 'build', 'clients', name);
  const stamp = join(folder, 'chairlift.stamp');
  if (existsSync(stamp) && readFileSync(stamp, 'utf8') === key) continue;
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder, { recursive: true });
  try {
    progress.log(`installing test/clients/${list}`);
    bring(folder, path);
    writeFileSync(stamp, key);
  } catch (error) {
    progress.log(`no clients of test/clients/${list}: ${error instanceof Error ? error.message : error}`);
  }
}
