import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { embeddedModelPath } from '../../test/support/embedded-model.ts';
import { hasAddon } from '../../test/support/native.ts';
import { runCommand } from '../../test/support/run-command.ts';
import type { ComparisonReport } from '../bench/comparison/comparison-report.ts';
import type { OfflineReport } from '../bench/offline/offline-bench.ts';
import { openModelFiles } from '../weights/open-model.ts';
import { addBenchOffline } from './bench-offline.ts';
import { UsageError } from './usage-error.ts';

const folder = mkdtempSync(join(tmpdir(), 'bench-offline-'));
afterAll(() => rmSync(folder, { recursive: true }));

const bench = (...words: string[]) => runCommand(addBenchOffline, ['offline', ...words]);
const embedded = ['--model', embeddedModelPath];
const small = ['--prompt', '32', '--tokens', '8', '--streams', '1,3'];

describe.skipIf(!hasAddon)('bench offline (needs the addon)', () => {
  it('compares one by one with batched on the embedded model where nothing is said', async () => {
    const json = join(folder, 'comparison.json');
    const plot = join(folder, 'comparison.svg');
    const words = ['--prompts', '8,40', '--concurrencies', '2,3', '--requests', '4', '--tokens', '4'];
    const extras = ['--repeats', '2', '--threads', '1', '--kv-type', 'q8', '--json', json, '--plot', plot];
    const { output, notes, error, exitCode } = await bench(...words, ...extras);
    expect({ error, exitCode }).toEqual({ error: undefined, exitCode: undefined });
    expect(output.split('\n')).toHaveLength(2);
    expect(readFileSync(json, 'utf8')).toBe(output);
    const report = JSON.parse(output) as ComparisonReport;
    expect(report).toMatchObject({
      benchmark: 'comparison',
      model: { source: 'file', architecture: 'llama', kvType: 'q8' },
      machine: { threads: 1 },
      outputTokens: 4,
      repeats: 2,
      mismatches: [],
    });
    expect(report.results.map(({ promptTokens, concurrency }) => [promptTokens, concurrency])).toEqual([
      [8, 2],
      [8, 3],
      [40, 2],
      [40, 3],
    ]);
    const { beforeLoadingBytes, loadedBytes } = report.memory;
    expect(loadedBytes - beforeLoadingBytes).toBeGreaterThan(report.model.weightBytes / 2);
    for (const { oneByOne, batched, requests } of report.results) {
      expect(requests).toBe(4);
      for (const { latencyMs, firstTokenMs, tokensPerSecond, seconds } of [oneByOne, batched]) {
        expect(latencyMs.count).toBe(4);
        expect(firstTokenMs.p99).toBeLessThan(latencyMs.max);
        expect(tokensPerSecond).toBeGreaterThan(0);
        expect(seconds).toBeGreaterThan(0);
      }
    }
    expect(notes).toContain('round 2 of 2: 4 prompts of 40 tokens, 3 at once, batched');
    expect(notes).toContain('All 64 answers: the same tokens one by one and batched.');
    expect(readFileSync(plot, 'utf8')).toMatch(/^<svg.*one by one, prompts of 40.*<\/svg>\s*$/s);
  });

  it.each(['--acceptance-rate', '--guesses'])(
    'decodes with drafts of which a share is right: %s',
    async (flag) => {
      const words = ['--prompt', '8', '--tokens', '6', '--streams', '1', flag, '0.5'];
      const { output, notes, error } = await bench(...embedded, ...words);
      expect(error).toBeUndefined();
      const { acceptanceRate, results } = JSON.parse(output) as OfflineReport;
      expect(acceptanceRate).toBe(0.5);
      expect(results.map(({ speculative }) => speculative?.ratio)).toEqual([expect.any(Number)]);
      expect(notes).toMatch(/Decoding with drafts, +50 % of which are right/);
    },
  );

  it('compares on a model made at random, too', async () => {
    const words = ['--prompts', '4', '--concurrencies', '2', '--tokens', '2', '--repeats', '1'];
    const { output, error } = await bench('--dummy', 'smollm2-135m:q4_0', ...words);
    expect(error).toBeUndefined();
    expect(JSON.parse(output)).toMatchObject({ model: { source: 'random' }, mismatches: [] });
  });

  it('measures, draws and ends in one line of JSON', async () => {
    const json = join(folder, 'report.json');
    const plot = join(folder, 'plot.svg');
    const extras = ['--prefix', '64', '--threads', '1', '--kv-type', 'q8', '--json', json, '--plot', plot];
    const { output, notes, error } = await bench(...embedded, ...small, ...extras);
    expect(error).toBeUndefined();
    expect(output.split('\n')).toHaveLength(2);
    expect(readFileSync(json, 'utf8')).toBe(output);
    const report = JSON.parse(output) as OfflineReport;
    expect(report).toMatchObject({
      benchmark: 'offline',
      model: { source: 'file', architecture: 'llama', kvType: 'q8' },
      machine: { threads: 1 },
      promptTokens: 32,
      outputTokens: 8,
      prefix: { tokens: 64, cachedTokens: 32 },
    });
    expect(report.bandwidth.samples).toHaveLength(3);
    expect(report.bandwidth.samples).toContain(report.bandwidth.bytesPerSecond);
    expect(report.results.map(({ streams, direct }) => [streams, direct.requests])).toEqual([
      [1, 1],
      [3, 2],
    ]);
    for (const { streams, batched, direct, speedUp, bytesPerStep, bandwidthShare } of report.results) {
      expect(batched.decode.steps).toBe(6);
      const { compute, sample, schedule, rest } = batched.decode.shares;
      expect(compute + sample + schedule + rest).toBeCloseTo(1);
      expect(Math.min(compute, sample, schedule, rest)).toBeGreaterThanOrEqual(0);
      expect(speedUp.decode).toBeCloseTo(batched.decode.tokensPerSecond / direct.decode.tokensPerSecond);
      expect(speedUp.requests).toBeCloseTo((streams * direct.secondsPerRequest) / batched.seconds);
      expect(bytesPerStep.kv).toBe(streams * 36.5 * report.model.kvBytesPerToken);
      const seconds = batched.decode.stepMs.median / 1000;
      const read = bytesPerStep.weights + bytesPerStep.kv;
      expect(bandwidthShare).toBeCloseTo(read / seconds / report.bandwidth.bytesPerSecond);
    }
    expect(notes).toContain('3 streams, batched');
    expect(notes).toContain('Direct mode was measured on 2 requests a line at most');
    expect(readFileSync(plot, 'utf8')).toMatch(/^<svg.*tokens per second.*<\/svg>\s*$/s);
  });

  it.each([
    [
      'a prompt beyond the context',
      ['--prompt', '5000'],
      '--prompt and --tokens: 5000 + 64 tokens do not fit',
    ],
    ['too few tokens', ['--streams', '1', '--tokens', '2'], '--tokens: give at least 4'],
    [
      'prompts beyond the context',
      ['--prompts', '32,5000'],
      '--prompts: 5000 tokens and answers of 32 do not',
    ],
    ['fewer requests than at once', ['--requests', '3'], '--requests: 3 cannot be 4 at once'],
    ['a folder that is not there', ['--plot', '/nowhere/x.svg'], 'there is no folder /nowhere'],
  ])('refuses %s in one line', async (_, words, message) => {
    const { error, output } = await bench(...embedded, ...words);
    expect(error).toBeInstanceOf(UsageError);
    expect((error as Error).message).toContain(message);
    expect((error as Error).message).not.toContain('\n');
    expect(output).toBe('');
  });
});

it.skipIf(!hasAddon).each([
  [['--streams', '1024', '--prompt', '100000'], /^not enough memory: .* GB of KV for 1024 streams, but /],
  [['--concurrencies', '1024', '--prompts', '100000'], / GB of KV for 1024 requests at once, but /],
])(
  'more KV than memory is refused before anything is loaded (needs the addon): %s',
  async (words, message) => {
    const { error } = await bench('--dummy', 'llama-3.1-8b:q4_0', ...words);
    expect(error).toBeInstanceOf(UsageError);
    expect((error as Error).message).toMatch(message);
  },
);

describe('bench offline', () => {
  it.each([
    ['both measurements', ['--prompts', '8', '--prefix', '64'], '--prompts and --prefix belong to different'],
    [
      'a comparison with drafts',
      ['--prompts', '8', '--acceptance-rate', '0.5'],
      '--prompts and --acceptance-rate belong to different',
    ],
    ['prompts of no length', ['--prompts', '8,0'], 'give whole numbers from 1, such as'],
    ['two models', [...embedded, '--dummy', 'smollm2-135m:q8_0'], 'give either --model or --dummy'],
    ['an unknown shape', ['--dummy', 'gpt-9:q8_0'], 'give SHAPE:TYPE, of the shapes llama-3.2-1b'],
    ['an unknown type', ['--dummy', 'smollm2-135m:q9'], 'iq4_xs'],
    ['zero streams', [...embedded, '--streams', '1,0'], 'give whole numbers from 1 to 1024'],
    ['streams that are no numbers', [...embedded, '--streams', '1,,2'], 'give whole numbers from 1 to 1024'],
    ['writing a real model', [...embedded, '--write', 'x.gguf'], '--write: only a --dummy model is written'],
    ['a file that is not there', ['--model', '/nowhere/x.gguf'], 'does not exist'],
  ])('refuses %s', async (_, words, message) => {
    const { error } = await bench(...words);
    expect((error as Error).message).toContain(message);
  });

  it('writes a dummy model and stops', async () => {
    const path = join(folder, 'dummy.gguf');
    const { error, output, notes } = await bench('--dummy', 'smollm2-135m:q2_k', '--write', path);
    expect(error).toBeUndefined();
    expect(output).toBe('');
    expect(notes).toContain(`written to ${path}`);
    const { weights } = openModelFiles(path);
    expect(weights.tensors.get('blk.29.ffn_down.weight')?.type).toBe('Q2_K');
    weights.close();
  });

  it('writes nothing where the folder is missing', async () => {
    const path = join(folder, 'missing', 'dummy.gguf');
    const { error } = await bench('--dummy', 'smollm2-135m:q4_0', '--write', path);
    expect((error as Error).message).toContain('the folder does not exist');
    expect(existsSync(path)).toBe(false);
  });
});
