// KV blocks are shared and reused without a trace: a released block holds nothing, and used again it is as good as new.

import { expect, it } from 'vitest';
import type { KvType } from '../../src/compute/backend.ts';
import type { BatchSequence } from '../../src/compute/batch.ts';
import { randomTokens, tinyModel } from '../support/tiny-model.ts';
import type { OpenBackend } from './backend-contract.ts';
import { logitsOf, whole, withBackend } from './running.ts';

const BLOCKS = 16;
const model = tinyModel();
const { vocabSize } = model.spec;
const tokens = randomTokens(75, vocabSize);

const all = (blocks: readonly number[], change: Partial<BatchSequence> = {}): BatchSequence => ({
  ...whole(tokens, blocks, 'all'),
  ...change,
});

export function blockContract(open: OpenBackend, kvType: KvType): void {
  const run = (use: Parameters<typeof withBackend>[3]) =>
    withBackend(open, model, { blockCount: BLOCKS, kvType }, use);

  it('compute the same bits when they are used again after a release', () =>
    run(async (backend) => {
      const expected = await logitsOf(backend, all([3, 4, 9]));
      await logitsOf(backend, all([5, 3, 6], { tokens: randomTokens(96, vocabSize, 2) }));
      backend.releaseBlocks(Int32Array.of(9, 3, 4));
      expect(await logitsOf(backend, all([4, 9, 3]))).toEqual(expected);
    }));

  it('keep what they hold while neighbours are released', () =>
    run(async (backend) => {
      await logitsOf(backend, all([3, 7, 5], { tokens: tokens.slice(0, 74) }));
      await logitsOf(backend, all([4, 6, 8], { tokens: randomTokens(90, vocabSize, 2) }));
      // In any order, one twice, some that were never used.
      backend.releaseBlocks(Int32Array.of(8, 4, 2, 6, 4, 9, 0));
      const last = all([3, 7, 5], { tokens: tokens.slice(74), start: 74 });
      const expected = await logitsOf(backend, all([10, 11, 12]));
      expect(await logitsOf(backend, last)).toEqual(expected.slice(-vocabSize));
    }));

  it('are not read once released, nor before they were written', () =>
    run(async (backend) => {
      await logitsOf(backend, all([1, 2, 3]));
      backend.releaseBlocks(Int32Array.of(2));
      const next = { tokens: [1], start: 75 };
      const refused = (block: number, ...sequences: BatchSequence[]) =>
        expect(logitsOf(backend, ...sequences)).rejects.toThrow(
          `would read block ${block}, which holds nothing`,
        );
      await refused(2, all([1, 2, 3], next));
      await refused(8, all([1, 8, 3], next));
      // A batch that was refused has written nothing.
      await refused(2, all([9, 10, 11]), all([1, 2, 3], next));
      await refused(9, all([9, 10, 11], next));
    }));

  it('are released only where they exist', () =>
    run(async (backend) => {
      expect(() => backend.releaseBlocks(Int32Array.of(0, BLOCKS))).toThrow('released block 16');
      expect(() => backend.releaseBlocks(Int32Array.of(-1))).toThrow('released block -1');
    }));

  it('serve several sequences that share them, each writing into its own', () =>
    run(async (backend) => {
      const prefix = tokens.slice(0, 64);
      const ends = [randomTokens(9, vocabSize, 6), randomTokens(40, vocabSize, 7)] as const;
      await logitsOf(backend, whole(prefix, [9, 4]));
      const forked = await logitsOf(
        backend,
        { tokens: ends[0], start: 64, blocks: [9, 4, 0], wantLogits: 'last' },
        { tokens: ends[1], start: 64, blocks: [9, 4, 7, 2], wantLogits: 'last' },
      );
      const own = (end: readonly number[]) => logitsOf(backend, whole([...prefix, ...end], [10, 11, 12, 13]));
      expect(forked.subarray(0, vocabSize)).toEqual(await own(ends[0]));
      expect(forked.subarray(vocabSize)).toEqual(await own(ends[1]));
    }));

  it('are not written while another sequence of the batch can see them', () =>
    run(async (backend) => {
      await logitsOf(backend, whole(tokens.slice(0, 40), [5, 6]));
      const next = { tokens: [1], start: 40, blocks: [5, 6], wantLogits: 'last' } as const;
      await expect(logitsOf(backend, next, { ...next, tokens: [2] })).rejects.toThrow(
        'would write into block 6, which is shared',
      );
    }));

  it('show nothing of their last sequence where they are reused without a release', () =>
    run(async (backend) => {
      const short = tokens.slice(0, 7);
      const expected = await logitsOf(backend, whole(short, [1], 'all'));
      await logitsOf(backend, whole(randomTokens(32, vocabSize, 12), [0]));
      expect(await logitsOf(backend, whole(short, [0], 'all'))).toEqual(expected);
    }));
}
