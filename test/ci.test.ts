// What continuous integration promises: lint, types and tests all count, and the last lines tell which failed and how many there were.

import { spawnSync } from 'node:child_process';
import { chmodSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';

const root = fileURLToPath(new URL('../', import.meta.url));
const folder = mkdtempSync(join(tmpdir(), 'chairlift-ci-'));
afterAll(() => rmSync(folder, { recursive: true }));

describe('.ci/run', () => {
  beforeAll(() => {
    // Stand for the real programs, which would run this test again: all they do succeeds, but for what is to fail.
    const npm = [
      '#!/bin/sh',
      'echo "npm $*"',
      '[ "$*" = test ] && echo "FAILED some test" && echo "30 passed, 1 failed, 4 skipped"',
      '[ "$*" = "run test:system" ] && echo "7 passed, 0 failed, 2 skipped"',
      '[ "$*" != "$TO_FAIL" ]',
    ];
    const nothing = '#!/bin/sh\n';
    const others = ['node', 'c++', 'chromium', 'firefox-esr', 'initdb'].map((name) => [name, nothing]);
    const stands: Record<string, string> = { npm: npm.join('\n'), ...Object.fromEntries(others) };
    for (const [name, text] of Object.entries(stands)) {
      writeFileSync(join(folder, name), text);
      chmodSync(join(folder, name), 0o755);
    }
  });

  function run(toFail: string): { status: number | null; lines: string[] } {
    const env = { ...process.env, PATH: `${folder}${delimiter}${process.env.PATH}`, TO_FAIL: toFail };
    const { status, stdout } = spawnSync(join(root, '.ci/run'), { env, encoding: 'utf8' });
    return { status, lines: stdout.trim().split('\n') };
  }

  it('succeeds where lint, types and tests do', () => {
    const { status, lines } = run('');
    expect(status).toBe(0);
    expect(lines).toEqual(
      expect.arrayContaining(['npm run lint', 'npm run typecheck', 'npm test', 'npm run test:system']),
    );
  });

  it.each(['run lint', 'run typecheck', 'test', 'run test:system'])(
    'fails with npm %s, and still names what failed and counts the tests of both commands',
    (command) => {
      const { status, lines } = run(command);
      expect(status).not.toBe(0);
      expect(lines.slice(-2)).toEqual(['FAILED some test', '37 passed, 1 failed, 6 skipped']);
    },
  );
});

describe('npm run typecheck', () => {
  function checkedFiles(project: string): Set<string> {
    const tsc = join(root, 'node_modules/.bin/tsc');
    const { stdout } = spawnSync(tsc, ['-p', project, '--listFilesOnly'], { cwd: root, encoding: 'utf8' });
    return new Set(stdout.split('\n').map((line) => line.trim()));
  }

  it.each([
    ['tsconfig.json', ['src', 'bench', 'test'], '.ts'],
    ['tsconfig.scripts.json', ['bin', 'scripts', 'bench', 'bench-compare', 'examples'], '.js'],
  ])('looks at everything that %s stands for', (project, folders, ending) => {
    const checked = checkedFiles(project);
    const files = folders.flatMap((name) =>
      readdirSync(join(root, name), { recursive: true, encoding: 'utf8' })
        .filter((path) => path.endsWith(ending) && !path.includes('node_modules'))
        .map((path) => join(root, name, path)),
    );
    expect(files.length).toBeGreaterThan(0);
    expect(files.filter((path) => !checked.has(path))).toEqual([]);
  });
});
