// Runs one of several programs by its name, in this process, after setting up the checkout.

import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';

const root = fileURLToPath(new URL('..', import.meta.url));

/**
 * @typedef {object} NamedProgram
 * @property {string} file within the checkout
 * @property {string} says what it measures, in a line
 * @property {readonly string[]} [setup] what set-up is asked for besides
 */

/** @typedef {Readonly<Record<string, NamedProgram>>} NamedPrograms */

/**
 * @param {string} command what people type before the name
 * @param {NamedPrograms} programs
 * @param {readonly string[]} words the name, and what the program is given
 */
export async function runNamed(command, programs, words) {
  const [name, ...rest] = words;
  if (name === undefined || name === '--help') {
    process.stdout.write(`${command} NAME [arguments]\n\n${listOf(programs)}\n`);
    return;
  }
  const program = Object.hasOwn(programs, name) ? programs[name] : undefined;
  if (program === undefined) {
    process.stderr.write(
      `${command} ${name}: there is nothing of that name. There are:\n\n${listOf(programs)}\n`,
    );
    process.exitCode = 2;
    return;
  }
  const { status } = spawnSync(
    process.execPath,
    [join(root, 'scripts', 'setup.js'), ...(program.setup ?? [])],
    { stdio: 'inherit' },
  );
  if (status !== 0) {
    process.exitCode = status ?? 1;
    return;
  }
  const file = join(root, program.file);
  process.argv.splice(1, process.argv.length, file, ...rest);
  await import(pathToFileURL(file).href);
}

/** @param {NamedPrograms} programs */
function listOf(programs) {
  const width = Math.max(...Object.keys(programs).map((name) => name.length));
  return Object.entries(programs)
    .map(([name, { says }]) => `  ${name.padEnd(width)}  ${says}`)
    .join('\n');
}
