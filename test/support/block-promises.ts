// What every backend promises about memory of KV blocks: released, a block holds nothing; used again, it is as good as new.

import { expect, it } from 'vitest';
import type { Backend, CreateBackend } from '../../src/compute/backend.ts';
import { type BatchSequence, buildBatch } from '../../src/compute/batch.ts';
import { randomTokens, tinyModel } from './tiny-model.ts';

export const BLOCKS = 16;
export const model = tinyModel();
const tokens = randomTokens(75, 131);

export const sequence = (blocks: readonly number[], change: Partial<BatchSequence> = {}): BatchSequence => ({
  tokens,
  start: 0,
  blocks,
  wantLogits: 'all',
  ...change,
});

export async function run(backend: Backend, ...sequences: readonly BatchSequence[]): Promise<Float32Array> {
  return (await backend.step(buildBatch(sequences))).logits.slice();
}

/** To be called where a backend is described. */
export function itKeepsBlocks(create: CreateBackend): void {
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
}
