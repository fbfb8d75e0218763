// The real program as a person runs it: with pipes, or at a pseudo-terminal, in a home of its own.

import { execFile, spawn } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll } from 'vitest';

export const program = fileURLToPath(new URL('../../bin/chairlift.js', import.meta.url));

export interface Outcome {
  readonly output: string;
  readonly notes: string;
  readonly code: number;
}

export interface Surroundings {
  readonly home: string;
  readonly environment?: NodeJS.ProcessEnv;
}

export const environmentOf = ({ home, environment }: Surroundings) => ({
  ...environment,
  PATH: process.env.PATH,
  HOME: home,
});

export function runProgram(place: Surroundings, words: readonly string[], input = ''): Promise<Outcome> {
  return new Promise((resolve) => {
    const options = { env: environmentOf(place), cwd: place.home };
    const child = execFile(process.execPath, [program, ...words], options, (error, output, notes) =>
      resolve({ output, notes, code: error === null ? 0 : Number(error.code) }),
    );
    child.stdin?.end(input);
  });
}

/** By the program `script`, which gives it a pseudo-terminal. */
export function atTerminal(place: Surroundings, words: readonly string[]) {
  const command = [process.execPath, program, ...words].map((word) => `'${word}'`).join(' ');
  const child = spawn('script', ['-qec', `exec ${command}`, '/dev/null'], {
    env: { ...environmentOf(place), SHELL: '/bin/sh', TERM: 'xterm' },
    cwd: place.home,
    stdio: 'pipe',
  });
  let shown = '';
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    shown += text;
  });
  const ended = new Promise<number | null>((resolve) => child.once('exit', resolve));
  return { type: (text: string) => child.stdin.write(text), shown: () => shown, ended };
}

const homes: string[] = [];
export function newHome(): string {
  const home = mkdtempSync(join(tmpdir(), 'chairlift-commands-'));
  homes.push(home);
  return home;
}
afterAll(() => {
  for (const home of homes) rmSync(home, { recursive: true, force: true });
});
