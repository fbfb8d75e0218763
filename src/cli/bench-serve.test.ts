import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import {
  type Behaviour,
  type CompletionStandIn,
  startStandIn,
} from '../../test/support/completion-stand-in.ts';
import { type CommandOutcome, runCommand } from '../../test/support/run-command.ts';
import { LiveLoad } from '../bench/serve/run-load.ts';
import { addBenchServe, progressNote } from './bench-serve.ts';

let server: CompletionStandIn;
let folder: string;
let behaviour: Behaviour;
beforeEach(async () => {
  behaviour = { kind: 'stream' };
  server = await startStandIn(() => behaviour);
  folder = mkdtempSync(join(tmpdir(), 'chairlift-bench-'));
});
afterEach(async () => {
  await server.close();
  rmSync(folder, { recursive: true });
});

function run(...words: string[]): Promise<CommandOutcome> {
  return runCommand(addBenchServe, ['serve', '--url', server.url, '--requests', '6', ...words]);
}

describe('chairlift bench serve', () => {
  it('puts tables on standard error and one line of JSON on standard output', async () => {
    const { output, notes, error, exitCode } = await run('--key', 'a=1', '--key', 'b=2');
    expect(error).toBeUndefined();
    expect(exitCode).toBeUndefined();
    expect(output.trimEnd()).not.toContain('\n');
    expect(JSON.parse(output)).toMatchObject({
      bench: 'serve',
      completed: 6,
      keys: [{ name: 'a' }, { name: 'b' }],
    });
    expect(notes).toMatch(/completed +6 of 6/);
    expect(notes).toMatch(/^TTFT \(ms\)( +[\d.,]+){5}$/m);
    expect(notes).toMatch(/^a +3 of 3/m);
  });

  it('says nothing but the JSON where it shall be quiet', async () => {
    const { output, notes } = await run('--quiet');
    expect(notes).toBe('');
    expect(JSON.parse(output)).toMatchObject({ completed: 6 });
  });

  it('writes a page and everything as JSON to files, or all of that to standard output', async () => {
    const [page, json] = [join(folder, 'report.html'), join(folder, 'report.json')];
    const { output } = await run('--html', page, '--json', json);
    expect(readFileSync(page, 'utf8')).toContain('stand-in under load');
    expect(JSON.parse(readFileSync(json, 'utf8'))).toMatchObject({
      requests: Array(6).fill({ keyName: 'anonymous' }),
    });
    expect(JSON.parse(output)).not.toHaveProperty('requests');
    const { output: whole } = await run('--json', '-');
    expect((JSON.parse(whole) as { requests: unknown[] }).requests).toHaveLength(6);
  });

  it('takes its load from its options', async () => {
    const { output } = await run(
      ...['--rate', '500', '--concurrency', '3', '--prompt-tokens', '20-30', '--output-tokens', 'normal:8,2'],
      ...['--prefix-tokens', '10', '--prefixes', '2', '--endpoint', 'completions', '--temperature', '0.3'],
      ...['--seed', '9', '--ignore-eos', '--warmup', '2', '--timeout-ms', '9000', '--goodput', 'ttft:800'],
    );
    expect((JSON.parse(output) as { load: object }).load).toEqual({
      endpoint: 'completions',
      requests: 6,
      warmup: 2,
      requestsPerSecond: 500,
      concurrency: 3,
      promptTokens: '20-30',
      outputTokens: 'normal:8,2',
      prefixes: 2,
      prefixTokens: 10,
      temperature: 0.3,
      seed: 9,
      ignoreEos: true,
      timeoutMs: 9000,
      goodput: { ttft: 800 },
      keys: [{ name: 'anonymous', weight: 1 }],
    });
    expect(server.asked).toHaveLength(8);
  });

  it('ends with 1 where not one request was completed', async () => {
    behaviour = { kind: 'refuse', status: 500 };
    const { output, notes, exitCode } = await run();
    expect(exitCode).toBe(1);
    expect(JSON.parse(output)).toMatchObject({ completed: 0, failed: 6 });
    expect(notes).toMatch(/^http 500 +6 .*refused with 500$/m);
  });

  it.each([
    [['--url', 'localhost:1'], /--url: localhost:1 is no address/],
    [['--url', 'http://127.0.0.1:1'], /no answer from .*; check --url/],
    [['--key', 'a=1', '--key', 'a=2'], /two keys have the name 'a'/],
    [['--html', '/no/such/folder/x.html'], /there is no folder \/no\/such\/folder/],
  ])('with %j says what is wrong', async (words, message) => {
    const { error } = await run(...words);
    expect(error).toMatchObject({ name: 'UsageError', message: expect.stringMatching(message) });
    expect(server.asked).toEqual([]);
  });

  it.each([
    ['--prompt-tokens', '9-3'],
    ['--output-tokens', 'many'],
    ['--rate', '0'],
    ['--concurrency', '0'],
    ['--warmup', '-1'],
    ['--goodput', 'itl:3'],
    ['--key', 'a:0=x'],
    ['--endpoint', 'responses'],
    ['--timeout-ms', '3000000000'],
  ])('refuses %s %s', async (flag, value) => {
    const { error } = await run(flag, value);
    expect(error).toMatchObject({
      code: 'commander.invalidArgument',
      message: expect.stringContaining(value),
    });
  });

  it('writes no file where it could not start', async () => {
    const page = join(folder, 'never.html');
    await run('--html', page, '--url', 'http://127.0.0.1:1');
    expect(existsSync(page)).toBe(false);
  });
});

describe('the progress of a load', () => {
  it('tells what is done, what runs, what failed, and how long it may take', () => {
    const live = new LiveLoad();
    expect(progressNote(live, 0)).toBe('calibrating');
    live.begin('load', 40, 1000);
    Object.assign(live, { done: 10, running: 4, errors: 2, chunks: 3000 });
    expect(progressNote(live, 31_000)).toBe('load 10/40, 4 running, 2 failed, 100 tokens/s, 1 min 30 s left');
  });
});
