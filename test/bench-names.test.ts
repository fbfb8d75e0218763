// `npm run bench` and `npm run compare` know what there is, and so do the docs.

import { spawnSync } from 'node:child_process';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';

const root = fileURLToPath(new URL('../', import.meta.url));

function run(folder: string, words: readonly string[]) {
  // Whatever is built already counts: where set-up ran, it would build the addon anew.
  const env = { ...process.env, CHAIRLIFT_SETUP_UNDER_WAY: '1' };
  return spawnSync(process.execPath, [join(folder, 'run.js'), ...words], {
    cwd: root,
    env,
    encoding: 'utf8',
  });
}

function namesIn(list: string): string[] {
  return [...list.matchAll(/^ {2}(\S+) {2}/gm)].map(([, name]) => name as string);
}

/** What people read, and the comments of what they run. */
function texts(): string[] {
  const folders = ['docs', 'bench', 'bench/simulate', 'bench-compare'];
  const files = folders.flatMap((folder) =>
    readdirSync(join(root, folder)).map((name) => join(folder, name)),
  );
  return ['README.md', 'CONTRIBUTING.md', 'CHANGELOG.md', ...files]
    .filter((name) => /\.(md|ts|js)$/.test(name))
    .map((name) => readFileSync(join(root, name), 'utf8'));
}

describe.each([
  ['bench', 'bench'],
  ['compare', 'bench-compare'],
])('npm run %s', (command, folder) => {
  const { status, stdout } = run(folder, []);
  const names = namesIn(stdout);

  it('lists what there is, each with a line, where no name is given', () => {
    expect(status).toBe(0);
    expect(names.length).toBeGreaterThan(3);
    expect(names).not.toContain('run');
  });

  it('refuses a name that it does not know, and says which it does', () => {
    for (const name of ['nothing-like-it', 'toString']) {
      const refused = run(folder, [name, '--rounds', '1']);
      expect(refused.status).toBe(2);
      expect(refused.stdout).toBe('');
      expect(refused.stderr).toContain(name);
      expect(namesIn(refused.stderr)).toEqual(names);
    }
  });

  it('is told of in docs/benchmarks.md with every name, and nowhere with another', () => {
    const benchmarks = readFileSync(join(root, 'docs/benchmarks.md'), 'utf8');
    for (const name of names) expect(benchmarks).toContain(`| \`npm run ${command} -- ${name}`);
    const told = texts().flatMap((text) => [
      ...text.matchAll(new RegExp(`npm run ${command} -- ([a-z][a-z-]*)`, 'g')),
    ]);
    expect(told.length).toBeGreaterThan(names.length);
    for (const [, name] of told) expect(names).toContain(name);
  });
});

describe('a benchmark', () => {
  it('is run with what follows its name', () => {
    const { status, stdout } = run('bench', ['simulate', '--workers', '0']);
    expect(stdout).toBe('');
    expect(status).toBe(2);
  });

  it.each([
    [['steps', 'llama-3.2-1b:q4_0,nothing'], 'give SHAPE:TYPE'],
    [['steps', 'llama-3.2-1b:q4_0', '1,none'], 'give a number of streams, not none'],
    [['steps', 'llama-3.2-1b:q4_0', '1', '--threads', '2,0'], 'give a number of threads, not 0'],
    [['steps', 'llama-3.2-1b:q4_0', '1', '--addon', 'nowhere.node'], 'there is no nowhere.node'],
    [['steps', 'llama-3.2-1b:q4_0', '--tracing', 'x'], "Unknown option '--tracing'"],
    [['context', 'llama-3.2-1b:q4_0', '0'], 'give a number of layers, not 0'],
    [['routing', '0'], 'whole numbers'],
  ])('that is asked for %j refuses with a reason, and no trace of its code', (words, reason) => {
    const { status, stderr } = run('bench', words);
    expect(status).toBe(1);
    expect(stderr).toContain(reason);
    expect(stderr.trim().split('\n').length).toBe(1);
  });

  it('is compiled where no package takes it from', () => {
    const { files } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as { files: string[] };
    for (const folder of ['bench', 'build', 'bench-compare']) expect(files).not.toContain(folder);
    const sources = readdirSync(join(root, 'bench')).filter((name) => /(?<!\.test)\.ts$/.test(name));
    for (const name of sources) {
      const file = name.replace(/\.ts$/, '.js');
      expect(existsSync(join(root, 'build/bench', file)), file).toBe(true);
      expect(existsSync(join(root, 'dist/bench', file)), file).toBe(false);
    }
  });
});
