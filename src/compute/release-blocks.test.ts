// What both backends promise about memory of K/V blocks: released, a block takes none; used again, it is as good as new.

import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { addon, hasAddon } from '../../test/support/native.ts';
import { randomTokens, tinyModel } from '../../test/support/tiny-model.ts';
import type { Backend, CreateBackend, KvType } from './backend.ts';
import { type BatchSequence, buildBatch } from './batch.ts';
import { createCpuBackend } from './cpu/backend.ts';
import { sizesOf } from './memory.ts';
import { createReferenceBackend } from './reference/backend.ts';

const cpu =
  (kvType: KvType): CreateBackend =>
  (spec, weights, options) =>
    createCpuBackend(addon(), spec, weights, { ...options, kvType });

const backends: readonly { readonly name: string; readonly create: CreateBackend }[] = [
  { name: 'reference', create: createReferenceBackend },
  ...(hasAddon ? (['f16', 'q8'] as const).map((type) => ({ name: `cpu, ${type}`, create: cpu(type) })) : []),
];

const BLOCKS = 16;
const model = tinyModel();
const tokens = randomTokens(75, 131);

const sequence = (blocks: readonly number[], change: Partial<BatchSequence> = {}): BatchSequence => ({
  tokens,
  start: 0,
  blocks,
  wantLogits: 'all',
  ...change,
});

async function run(backend: Backend, ...sequences: readonly BatchSequence[]): Promise<Float32Array> {
  return (await backend.step(buildBatch(sequences))).logits.slice();
}

describe.each(backends)('blocks of the $name backend', ({ create }) => {
  const open = () => create(model.spec, model.weights, { blockCount: BLOCKS });

  it('compute the same bits when they are used again after a release', async () => {
    const backend = await open();
    const expected = await run(backend, sequence([3, 4, 9]));
    await run(backend, sequence([5, 3, 6], { tokens: randomTokens(96, 131, 2) }));
    backend.releaseBlocks(Int32Array.of(9, 3, 4));
    expect(await run(backend, sequence([4, 9, 3]))).toEqual(expected);
    backend.close();
  });

  it('keep what they hold while neighbours are released', async () => {
    const backend = await open();
    await run(backend, sequence([3, 7, 5], { tokens: tokens.slice(0, 74) }));
    await run(backend, sequence([4, 6, 8], { tokens: randomTokens(90, 131, 2) }));
    // In any order, one twice, some that were never used.
    backend.releaseBlocks(Int32Array.of(8, 4, 2, 6, 4, 9, 0));
    const last = sequence([3, 7, 5], { tokens: tokens.slice(74), start: 74 });
    const expected = await run(backend, sequence([10, 11, 12]));
    expect(await run(backend, last)).toEqual(expected.slice(-131));
    backend.close();
  });

  it('are not read once released, nor before they were written', async () => {
    const backend = await open();
    await run(backend, sequence([1, 2, 3]));
    backend.releaseBlocks(Int32Array.of(2));
    const next = { tokens: [1], start: 75 };
    await expect(run(backend, sequence([1, 2, 3], next))).rejects.toThrow(
      'would read block 2, which holds nothing',
    );
    await expect(run(backend, sequence([1, 8, 3], next))).rejects.toThrow(
      'would read block 8, which holds nothing',
    );
    // A batch that was refused has written nothing.
    const writer = sequence([9, 10, 11]);
    await expect(run(backend, writer, sequence([1, 2, 3], next))).rejects.toThrow('block 2');
    await expect(run(backend, sequence([9, 10, 11], next))).rejects.toThrow('block 9');
    backend.close();
  });

  it('are released only where they exist', async () => {
    const backend = await open();
    expect(() => backend.releaseBlocks(Int32Array.of(0, BLOCKS))).toThrow('released block 16');
    expect(() => backend.releaseBlocks(Int32Array.of(-1))).toThrow('released block -1');
    backend.close();
  });
});

describe.skipIf(!hasAddon)('the cpu backend (skipped where the addon is not built)', () => {
  it('releases nothing while a step runs', async () => {
    const backend = await cpu('f16')(model.spec, model.weights, { blockCount: BLOCKS });
    const running = run(backend, sequence([1, 2, 3]));
    expect(() => backend.releaseBlocks(Int32Array.of(4))).toThrow('a step is still running');
    await running;
    backend.close();
  });
});

const MEGABYTE = 2 ** 20;
const residentBytes = () => Number(readFileSync('/proc/self/statm', 'utf8').split(' ')[1]) * 4096;

describe.skipIf(!hasAddon || process.platform !== 'linux')(
  'memory of the cpu backend (skipped where the addon is not built or the system does not tell)',
  () => {
    it('is taken by blocks when they are first used, and really given back', async () => {
      const used = 64;
      const large = tinyModel({ layerCount: 8, headCount: 8, kvHeadCount: 8, headSize: 128 });
      const bytes = sizesOf('cpu').kvBlockBytes(large.spec, 'f16');
      expect(bytes).toBe(MEGABYTE);
      // 128 GB, but of addresses alone.
      const backend = await cpu('f16')(large.spec, large.weights, { blockCount: 1 << 17 });
      // Far apart and side by side.
      const blocks = Array.from({ length: used }, (_, index) => (index % 2 === 0 ? index : 100_000 + index));
      const fill = () =>
        run(
          backend,
          ...blocks.map((block) => sequence([block], { tokens: randomTokens(32, 131), wantLogits: 'none' })),
        );
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
    });
  },
);
