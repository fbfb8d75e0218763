// What the cpu backend promises beyond the contract of all: one pool of threads computes and samples, and memory of KV
// blocks is committed when they are first used.

import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { describe, expect, it } from 'vitest';
import { eventually } from '../../../test/support/eventually.ts';
import { addon, hasAddon } from '../../../test/support/native.ts';
import { rowOf } from '../../../test/support/sampling-requests.ts';
import { seeingModel, tiledImage } from '../../../test/support/seeing-model.ts';
import { randomTokens, type TinyModel, tinyModel } from '../../../test/support/tiny-model.ts';
import { sampleRows } from '../../sampling/sampler.ts';
import type { Backend } from '../backend.ts';
import { buildBatch } from '../batch.ts';
import { sizesOf } from '../memory.ts';
import { type CpuBackend, createCpuBackend } from './backend.ts';

const model = tinyModel();
const { vocabSize } = model.spec;
const tokens = randomTokens(90, vocabSize);
const rows = tokens.map((_, position) => rowOf({ topP: 0.9, seed: 1 }, vocabSize, { position }));

const open = (threads: number, { spec, weights }: TinyModel = model, blockCount = 6): Promise<CpuBackend> =>
  createCpuBackend(addon(), spec, weights, { blockCount, threads });

async function step(backend: Backend): Promise<Float32Array> {
  const batch = buildBatch([{ tokens, start: 0, blocks: [4, 0, 2], wantLogits: 'all' }]);
  return (await backend.step(batch)).logits.slice();
}

const isLinux = process.platform === 'linux';
const threadCount = () => readdirSync('/proc/self/task').length;
/** Of a thread of this process, or of the process. */
function allowedCores(task?: string): number[] {
  const status = readFileSync(
    task === undefined ? '/proc/self/status' : `/proc/self/task/${task}/status`,
    'utf8',
  );
  const list = /^Cpus_allowed_list:\s*(.*)$/m.exec(status)?.[1] ?? '';
  return list.split(',').flatMap((part) => {
    const [from = 0, to = from] = part.split('-').map(Number);
    return Array.from({ length: to - from + 1 }, (_, n) => from + n);
  });
}
const MEGABYTE = 2 ** 20;
const residentBytes = () => Number(readFileSync('/proc/self/statm', 'utf8').split(' ')[1]) * 4096;

describe.skipIf(!hasAddon)('the cpu backend (skipped where the addon is not built)', () => {
  it.skipIf(!isLinux)('samples on the threads that compute', async () => {
    // Node starts threads of its own with the first work it is given.
    const first = await open(1);
    await step(first);
    const before = threadCount();
    const backend = await open(6);
    const logits = await step(backend);
    backend.sampleRows(logits, vocabSize, rows);
    expect(threadCount() - before).toBe(5);
    for (const each of [first, backend]) each.close();
  });

  it.skipIf(!isLinux || availableParallelism() < 2)(
    'keeps threads on the cores of their NUMA node',
    async () => {
      const plain = await open(4);
      const expected = await step(plain);
      const [first, second] = allowedCores() as [number, number];
      const nodes = [
        { number: 0, cores: [first] },
        { number: 1, cores: [second] },
      ];
      const before = new Set(readdirSync('/proc/self/task'));
      const backend = await createCpuBackend(addon(), model.spec, model.weights, {
        blockCount: 6,
        threads: 4,
        nodes,
      });
      const workers = readdirSync('/proc/self/task').filter((task) => !before.has(task));
      await eventually(() => {
        expect(workers.map((task) => allowedCores(task)).sort()).toEqual([[first], [second], [second]]);
      });
      expect(await step(backend)).toEqual(expected);
      // Where the system keeps count: the first half of a matrix wants the memory of the first node.
      const maps = existsSync('/proc/self/numa_maps')
        ? readFileSync('/proc/self/numa_maps', 'utf8')
        : undefined;
      if (maps !== undefined) expect(maps).toMatch(/ prefer(?: \(many\))?:0 /);
      for (const each of [plain, backend]) each.close();
    },
  );

  it('attends to a long history with the same bits, however many threads share it', async () => {
    const blockCount = 110;
    const blocks = Array.from({ length: blockCount }, (_, n) => (n * 37) % blockCount);
    const wide = tinyModel({ contextLength: 4096 });
    const long = randomTokens(3400, vocabSize);
    const results: Float32Array[] = [];
    for (const threads of [1, 3, 16]) {
      const backend = await open(threads, wide, blockCount);
      for (let start = 0; start < long.length - 1; start += 512) {
        const chunk = long.slice(start, Math.min(start + 512, long.length - 1));
        await backend.step(buildBatch([{ tokens: chunk, start, blocks, wantLogits: 'none' }]));
      }
      const last = { tokens: long.slice(-1), start: long.length - 1, blocks, wantLogits: 'all' } as const;
      results.push((await backend.step(buildBatch([last]))).logits.slice());
      backend.close();
    }
    expect(results[1]).toEqual(results[0]);
    expect(results[2]).toEqual(results[0]);
  });

  it('samples the same tokens while a step is under way, and disturbs none', async () => {
    const backend = await open(3);
    const expected = await step(backend);
    const sampled = sampleRows(expected, vocabSize, rows);
    for (let trial = 0; trial < 10; trial++) {
      const logits = expected.slice();
      const running = step(backend);
      for (let again = 0; again < 20; again++) {
        expect(backend.sampleRows(logits, vocabSize, rows)).toEqual(sampled);
      }
      expect(await running).toEqual(expected);
    }
    backend.close();
  });

  it('computes the same while its number of threads changes', async () => {
    const backend = await open(4, tinyModel({ hiddenSize: 128, ffnSize: 256, layerCount: 3 }));
    const expected = await step(backend);
    for (const threads of [1, 3, 1, 4, 2, 99, 0, 4]) {
      backend.useThreads?.(threads);
      for (let times = 0; times < 20; times++) expect(await step(backend)).toEqual(expected);
    }
    backend.useThreads?.(1);
    await step(backend);
    // Those who rest are woken to end.
    backend.close();
  });

  it('computes the same while what its threads do is recorded, and says where there was too little room', async () => {
    const backend = await open(3);
    const expected = await step(backend);
    backend.startTimeline(1 << 10, 1 << 14);
    for (let times = 0; times < 5; times++) expect(await step(backend)).toEqual(expected);
    const { steps, pieces, dropped } = backend.takeTimeline();
    expect(steps.length).toBe(2 * 5);
    expect(pieces.length).toBe(3);
    expect(dropped).toBe(0);
    backend.startTimeline(2, 1);
    expect(await step(backend)).toEqual(expected);
    const short = backend.takeTimeline();
    expect(short.loops.length).toBe(2 * 5);
    expect(short.dropped).toBeGreaterThan(0);
    backend.close();
  });

  it('records threads between steps alone, and gives what was recorded once', async () => {
    const backend = await open(2);
    const running = step(backend);
    expect(() => backend.startTimeline(1, 1)).toThrow('a step is still running');
    expect(() => backend.takeTimeline()).toThrow('a step is still running');
    await running;
    expect(() => backend.startTimeline(0, 1)).toThrow('room for no or too many loops');
    backend.startTimeline(1, 1);
    backend.takeTimeline();
    expect(() => backend.takeTimeline()).toThrow('no timeline was started');
    backend.close();
  });

  it('releases nothing while a step runs', async () => {
    const backend = await open(1);
    const running = step(backend);
    expect(() => backend.releaseBlocks(Int32Array.of(4))).toThrow('a step is still running');
    await running;
    backend.close();
  });

  it('computes no image while a step runs, and no step during a piece of an image', async () => {
    const { spec, weights } = seeingModel();
    const backend = await createCpuBackend(addon(), spec, weights, { blockCount: 6 });
    const run = backend.beginImage?.(tiledImage(1));
    const step = () => backend.step(buildBatch([{ tokens: [1], start: 0, blocks: [0], wantLogits: 'all' }]));
    const running = step();
    await expect(run?.advance(1)).rejects.toThrow('compute images between steps');
    await running;
    const piece = run?.advance(1);
    await expect(step()).rejects.toThrow('await it before the next');
    await expect(run?.advance(1)).rejects.toThrow('a piece of the image is still computed');
    await piece;
    // Both are closed while a piece is computed, which ends in good order.
    const last = run?.advance(1);
    run?.close();
    backend.close();
    await last;
    await expect(run?.advance(1)).rejects.toThrow('closed');
  });

  it('computes little of an image where little is asked for', async () => {
    const { spec, weights } = seeingModel();
    const backend = await createCpuBackend(addon(), spec, weights, { blockCount: 1 });
    const run = backend.beginImage?.(tiledImage(1));
    const all = run?.left as number;
    await run?.advance(1);
    expect(run?.left).toBeGreaterThan(0.99 * all);
    await run?.advance(all / 2);
    expect((run?.left as number) / all).toBeCloseTo(0.5, 1);
    run?.close();
    backend.close();
  });

  it.skipIf(!isLinux)(
    'takes memory of blocks when they are first used, and really gives it back',
    async () => {
      const used = 64;
      const large = tinyModel({ layerCount: 8, headCount: 8, kvHeadCount: 8, headSize: 128 });
      const bytes = sizesOf('cpu').kvBlockBytes(large.spec, 'f16');
      expect(bytes).toBe(MEGABYTE);
      // 128 GB, but of addresses alone.
      const backend = await open(2, large, 1 << 17);
      // Far apart and side by side.
      const blocks = Array.from({ length: used }, (_, index) => (index % 2 === 0 ? index : 100_000 + index));
      const text = { tokens: randomTokens(32, 131), start: 0, wantLogits: 'none' } as const;
      const fill = () => backend.step(buildBatch(blocks.map((block) => ({ ...text, blocks: [block] }))));
      const release = () => backend.releaseBlocks(Int32Array.from(blocks));
      // Everything else that a step takes is there after the first.
      await fill();
      release();
      const before = residentBytes();
      await fill();
      const filled = residentBytes();
      release();
      const after = residentBytes();
      backend.close();
      const slack = 8 * MEGABYTE;
      expect(Math.abs(filled - before - used * bytes)).toBeLessThan(slack);
      expect(Math.abs(after - before)).toBeLessThan(slack);
    },
  );
});
