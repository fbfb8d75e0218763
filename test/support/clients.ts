// Programs of others as clients of the server: what scripts/clients.js has brought, and how their tests run them. A test
// whose program is missing is skipped, and says why.

import { type ChildProcess, spawn } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { beforeAll, describe, expect, it } from 'vitest';

const root = fileURLToPath(new URL('../..', import.meta.url));
const folder = (name: string) => `${root}/build/clients/${name}`;

type Environment = 'python' | 'aider' | 'npm';

/** Why there is none; undefined where there is one. */
export function missing(environment: Environment): string | undefined {
  return existsSync(`${folder(environment)}/chairlift.stamp`)
    ? undefined
    : 'node scripts/clients.js has brought none';
}

export const python = `${folder('python')}/bin/python`;
export const aider = `${folder('aider')}/bin/aider`;
export const npmFolder = folder('npm');
export const programOf = (name: string) => `${npmFolder}/node_modules/.bin/${name}`;

export interface Ended {
  readonly code: number | null;
  readonly output: string;
  readonly errors: string;
}

export function runProgram(
  command: string,
  args: readonly string[],
  options: { readonly input?: string; readonly env?: NodeJS.ProcessEnv; readonly cwd?: string } = {},
): Promise<Ended> {
  const { input = '', env = {}, cwd } = options;
  const child: ChildProcess = spawn(command, args, {
    env: { PATH: process.env.PATH, HOME: cwd ?? process.env.HOME, ...env },
    ...(cwd === undefined ? {} : { cwd }),
    stdio: 'pipe',
  });
  let output = '';
  let errors = '';
  child.stdout?.setEncoding('utf8').on('data', (text: string) => {
    output += text;
  });
  child.stderr?.setEncoding('utf8').on('data', (text: string) => {
    errors += text;
  });
  child.stdin?.end(input);
  return new Promise((resolve, reject) => {
    child.once('error', reject);
    child.once('close', (code) => resolve({ code, output, errors }));
  });
}

/** Large packages take their time to be imported, on a busy machine more. */
const IMPORTS_MS = 600_000;

interface CaseResult {
  readonly name: string;
  readonly error: string | null;
}

/**
 * The cases of test/clients/python/NAME.py as tests of their names. The program is run once, with the server's address, and
 * writes a line of JSON for each.
 */
export function pythonCases(name: string, url: () => string): void {
  const program = `${root}/test/clients/python/${name}.py`;
  const source = readFileSync(program, 'utf8');
  const names = [...source.matchAll(/^@case\("(.*)"\)$/gm)].map(([, one]) => one as string);
  const reason = missing('python');
  describe.skipIf(reason !== undefined)(reason === undefined ? name : `${name} (skipped: ${reason})`, () => {
    let results: ReadonlyMap<string, string | null>;
    let log = '';

    beforeAll(async () => {
      const { output, errors } = await runProgram(python, [program, url()]);
      const lines = output.split('\n').filter((line) => line.startsWith('{'));
      const parsed = lines.map((line) => JSON.parse(line) as CaseResult);
      results = new Map(parsed.map((one) => [one.name, one.error]));
      log = errors;
    }, IMPORTS_MS);

    it.each(names)('%s', (one) => {
      if (!results.has(one)) throw new Error(`it was not run: ${log.slice(-4000)}`);
      expect(results.get(one)).toBeNull();
    });
  });
}
