// The examples of docs/library.md, as a program that has the package installed meets them: compiled code, typed,
// run by Node. And what the library promises beyond them.

import { execFile } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { afterAll, describe, expect, it } from 'vitest';
import { errorCodes } from '../src/app/chairlift-error.ts';
import { hasAddon } from './support/native.ts';

const root = fileURLToPath(new URL('..', import.meta.url));
const page = readFileSync(join(root, 'docs/library.md'), 'utf8');
const examples = [...page.matchAll(/^```ts\n(.*?)^```$/gms)].map(([, code]) => code as string);

// A project of its own, with the package and nothing else; its home is empty, so that no one's models are served.
const project = mkdtempSync(join(tmpdir(), 'chairlift-project-'));
mkdirSync(join(project, 'node_modules'));
symlinkSync(root, join(project, 'node_modules/chairlift'), 'junction');
writeFileSync(join(project, 'package.json'), '{ "type": "module" }');
afterAll(() => rmSync(project, { recursive: true }));

/** Standard output; fails where the program fails or says anything else. */
async function run(name: string, code: string): Promise<string> {
  writeFileSync(join(project, name), code);
  const { stdout, stderr } = await promisify(execFile)(process.execPath, [name], {
    cwd: project,
    env: { ...process.env, HOME: project, USERPROFILE: project },
  });
  expect(stderr).toBe('');
  return stdout;
}

describe('docs/library.md', () => {
  it('has nine examples', () => expect(examples).toHaveLength(9));

  it('holds answers to structures', async () => {
    const lines = (await run('structure.js', examples[1] ?? '')).trimEnd().split('\n');
    expect(lines[0]).toBe('name and age');
    expect(lines[1]).toMatch(/^when: \d{1,2} (am|pm), who: (a fox|an owl)$/);
  });

  it('calls tools', async () => {
    const lines = (await run('tools.js', examples[2] ?? '')).trimEnd().split('\n');
    expect(lines[0]).toMatch(/^get_weather \{"city": ?"Oslo"\}$/);
    expect(lines.at(-1)).not.toMatch(/^get_weather/);
  });

  it('embeds', async () => {
    const lines = (await run('embed.js', examples[6] ?? '')).trimEnd().split('\n');
    expect(lines).toHaveLength(3);
    expect(lines[0]).toMatch(/^384 values, the first of them -?0\.\d{3}$/);
    expect(lines[2]).toMatch(/^\d+ tokens$/);
  });

  it('streams a chat', async () => {
    const lines = (await run('chat.js', examples[0] ?? '')).trimEnd().split('\n');
    expect(lines[0]).toMatch(/Chairlift/);
    expect(lines.at(-1)).toMatch(/^ended by stop after \d+ tokens$/);
  });

  it('runs many at once and cuts one short', async () => {
    const lines = (await run('many.js', examples[3] ?? '')).trimEnd().split('\n');
    for (const hero of ['a fox', 'an owl', 'a bear']) {
      expect(lines.filter((line) => line.startsWith(`${hero}:`))).toHaveLength(1);
    }
    expect(lines).toContain('endless: AbortError');
    const [, tokens, passes] = /^(\d+) tokens in (\d+) passes$/.exec(lines.at(-1) ?? '') ?? [];
    expect(Number(passes)).toBeGreaterThan(0);
    expect(Number(tokens)).toBeGreaterThan(1.5 * Number(passes));
  });

  it('serves from within', async () => {
    const output = await run('serve.js', examples[4] ?? '');
    expect(output).toContain("object: 'chat.completion'");
    expect(output).toMatch(/content: '.*Chairlift/);
  });

  it.skipIf(!hasAddon)('measures what batching is worth (needs the addon)', async () => {
    const lines = (await run('benchmark.js', examples[5] ?? '')).trimEnd().split('\n');
    expect(lines).toHaveLength(2);
    for (const line of lines) {
      expect(line).toMatch(
        /^prompts of (32|256), 8 at once: [\d.]+ times the tokens, first token after \d+ ms in place of \d+$/,
      );
    }
  });

  it('drives the scheduler by hand, with blocks of a shared prefix', async () => {
    const lines = (await run('parts.js', examples[7] ?? '')).trimEnd().split('\n');
    const steps = lines.filter((line) => /^story \d: \d+\+\d+/.test(line));
    expect(steps[0]).toMatch(/^story 0: 0\+48$/);
    // Prompts come in chunks of the step's budget, and both decode in the same steps.
    expect(steps.some((line) => /^story 0: \d+\+1, story 1: \d+\+1$/.test(line))).toBe(true);
    const [first, second] = lines.filter((line) => line.includes('tokens cached'));
    expect(first).toMatch(/^story 0, 0 of \d+ tokens cached: \w+/);
    const [, cached, prompt] = /^story 1, (\d+) of (\d+) tokens cached:/.exec(second ?? '') ?? [];
    expect(Number(cached)).toBeGreaterThanOrEqual(32);
    expect(Number(cached) % 32).toBe(0);
    expect(Number(cached)).toBeLessThan(Number(prompt));
  });

  it('runs an engine on a backend of its own', async () => {
    const output = await run('counting.js', examples[8] ?? '');
    expect(output.trimEnd().split('\n')).toEqual(['5', '6', '7', '8', '9', '10', 'ended by stop']);
  });

  it('is right about types', async () => {
    for (const [at, code] of examples.entries()) writeFileSync(join(project, `example-${at}.ts`), code);
    const uses = `import { benchmark, type BenchmarkReport, type ChairliftError, load, serve } from 'chairlift';
      await using model = await load({ kvMemory: '1GiB', memory: 1e9 });
      const { tokens } = await model.tokens([1], { signal: AbortSignal.timeout(5) }).result();
      export const first: number | undefined = tokens[0];
      // @ts-expect-error: there is no such option
      model.chat([], { max_tokens: 5 });
      model.chat([], { regex: 'a', temperature: 0 });
      model.complete('', { choices: ['a'], regex: undefined });
      // @ts-expect-error: an answer has one structure
      model.chat([], { regex: 'a', choices: ['a'] });
      // @ts-expect-error: an answer has one structure
      model.complete('', { schema: {}, grammar: 'root ::= "a"' });
      // @ts-expect-error: the KV cache has one size
      await load({ kvBlocks: 64, kvMemory: '1GiB' });
      // @ts-expect-error: the KV cache has one size
      await serve({ kvBlocks: 64, kvMemory: '1GiB' });
      // @ts-expect-error: a piece of tokens() is no text
      for await (const piece of model.tokens([1])) piece.length;
      export const speedUps = ({ results }: BenchmarkReport): number[] => results.map(({ speedUp }) => speedUp);
      // @ts-expect-error: lengths are numbers of tokens
      await benchmark({ prompts: ['short'] });
      // @ts-expect-error: there is no such code
      export const isOdd = (error: ChairliftError) => error.code === 'odd';`;
    const parts = `import { type Backend, type Batch, BlockPool, BlockTables, type CreateBackend, Engine } from 'chairlift/engine';
      export const create: CreateBackend = async (spec, weights, { blockCount }) => {
        const rows: number = weights.tensors.size + spec.layers.length;
        return { name: 'mine', blockCount, step: async (batch: Batch) => ({ logits: new Float32Array(batch.logitRows.length * rows), states: new Float32Array() }), sampleRows: () => [], releaseBlocks() {}, close() {} };
      };
      const pool = new BlockPool(4, (block: number) => block);
      export const taken: number | undefined = pool.take(false);
      export const { prefixes } = new BlockTables(4);
      // @ts-expect-error: a backend without a step is none
      export const empty: Backend = { name: 'mine', blockCount: 1 };
      // @ts-expect-error: an engine needs a model's sizes
      new Engine({} as Backend, { blockCount: 1 }, () => {});`;
    writeFileSync(join(project, 'parts-uses.ts'), parts);
    writeFileSync(join(project, 'uses.ts'), uses);
    const options = {
      strict: true,
      exactOptionalPropertyTypes: true,
      noEmit: true,
      target: 'ES2022',
      lib: ['ESNext'],
      module: 'NodeNext',
      types: ['node'],
      typeRoots: [join(root, 'node_modules/@types')],
    };
    writeFileSync(join(project, 'tsconfig.json'), JSON.stringify({ compilerOptions: options }));
    const compiler = join(root, 'node_modules/typescript/bin/tsc');
    const result = await promisify(execFile)(process.execPath, [compiler, '-p', project]).catch(
      (error: { stdout: string }) => error,
    );
    expect(result.stdout).toBe('');
  });

  it('names every error code', () => {
    for (const code of errorCodes) expect(page).toContain(`| \`${code}\` |`);
  });
});

describe('serve', () => {
  it('closes twice without harm, and gives typed errors', async () => {
    const output = await run(
      'errors.js',
      `import { createServer } from 'node:http';
      import { ChairliftError, serve } from 'chairlift';
      const fail = (options) => serve({ logLevel: 'warn', ...options }).then(
        () => 'no error',
        (error) => error instanceof ChairliftError ? error.code + ' ' + error.message : error,
      );
      const taken = createServer().listen(0, '127.0.0.1');
      await new Promise((resolve) => taken.once('listening', resolve));
      console.log(await fail({ port: taken.address().port }));
      taken.close();
      console.log(await fail({ port: 'any' }));
      console.log(await fail({ prot: 0 }));
      console.log(await fail({ database: process.cwd() }));
      const server = await serve({ port: 0, logLevel: 'warn' });
      await Promise.all([server.close(), server.close()]);
      console.log('closed');`,
    );
    const [address, value, name, database, closed] = output.split('\n');
    expect(address).toMatch(/^address_unavailable .*EADDRINUSE/);
    expect(value).toMatch(/^invalid_configuration port: give a whole number/);
    expect(name).toMatch(/^invalid_configuration prot: there is no such option/);
    expect(database).toMatch(/^database_unusable /);
    expect(closed).toBe('closed');
  });
});
