// What the cpu backend promises on any model shape: a sequence's logits are the same bits alone, in a batch,
// in any chunks, over scattered or shared blocks, on any number of threads and any ISA; and they are right.

import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { Backend, KvType } from '../../src/compute/backend.ts';
import { buildBatch } from '../../src/compute/batch.ts';
import { type CpuOptions, createCpuBackend } from '../../src/compute/cpu/backend.ts';
import { createReferenceBackend } from '../../src/compute/reference/backend.ts';
import {
  BLOCKS,
  blocksFor,
  cosine,
  floatTypes,
  models,
  sequencesFor,
  together,
} from '../support/backend-properties.ts';
import { addon, hasAddon } from '../support/native.ts';
import { cases } from '../support/thorough.ts';
import { randomTokens, type TinyModel, tinyModel } from '../support/tiny-model.ts';

async function withBackend<Result>(
  { spec, weights }: TinyModel,
  options: Partial<CpuOptions>,
  use: (backend: Backend) => Promise<Result>,
): Promise<Result> {
  const backend = await createCpuBackend(addon(), spec, weights, { blockCount: BLOCKS, ...options });
  try {
    return await use(backend);
  } finally {
    backend.close();
  }
}

/** Logits of every position of one sequence computed alone, in one piece, in the first blocks, by one thread. */
function alone(
  model: TinyModel,
  tokens: readonly number[],
  options: Partial<CpuOptions> = {},
): Promise<Float32Array> {
  return withBackend(model, { threads: 1, ...options }, async (backend) => {
    const blocks = Array.from({ length: blocksFor(tokens.length) }, (_, block) => block);
    const { logits } = await backend.step(buildBatch([{ tokens, start: 0, blocks, wantLogits: 'all' }]));
    return logits.slice();
  });
}

const runs = (all: number) => ({ seed: 20261115, numRuns: cases(all, 0.25) });

describe.skipIf(!hasAddon)('the cpu backend (skipped where the addon is not built)', () => {
  it('gives a sequence the same bits alone and among 16 others, in any chunks, with 1 or 2 threads', async () => {
    const property = fc.asyncProperty(models, fc.integer({ min: 1, max: 1e6 }), async (options, seed) => {
      const model = tinyModel(options);
      const { vocabSize } = model.spec;
      const sequences = sequencesFor(17, vocabSize, seed);
      const expected = await alone(model, sequences[0] as number[]);
      expect(expected.every(Number.isFinite)).toBe(true);
      for (const threads of [1, 2]) {
        const [actual] = await withBackend(model, { threads }, (backend) =>
          together(backend, sequences, vocabSize, seed + threads),
        );
        expect(actual).toEqual(expected);
      }
    });
    await fc.assert(property, runs(60));
  });

  it('gives the same bits on every ISA, with 16-bit and with 8-bit KV', async () => {
    const kvTypes: readonly KvType[] = ['f16', 'q8'];
    const property = fc.asyncProperty(models, fc.constantFrom(...kvTypes), async (options, kvType) => {
      const model = tinyModel(options);
      const tokens = randomTokens(70, model.spec.vocabSize, options.seed);
      const expected = await alone(model, tokens, { isa: 'scalar', kvType });
      for (const isa of addon().kernels())
        expect(await alone(model, tokens, { isa, kvType })).toEqual(expected);
    });
    await fc.assert(property, runs(40));
  });

  it('computes what the reference backend computes, whatever features a model has', async () => {
    const property = fc.asyncProperty(
      models,
      fc.constantFrom<KvType>('f16', 'q8'),
      async (options, kvType) => {
        const model = tinyModel(options);
        const tokens = randomTokens(75, model.spec.vocabSize, options.seed);
        const actual = await alone(model, tokens, { kvType });
        const reference = await createReferenceBackend(model.spec, model.weights, { blockCount: 3 });
        const batch = buildBatch([{ tokens, start: 0, blocks: [2, 0, 1], wantLogits: 'all' }]);
        const { logits } = await reference.step(batch);
        const exact = floatTypes.includes(options.type ?? 'F32') && kvType === 'f16';
        expect(cosine(actual, logits)).toBeGreaterThan(exact ? 0.9999 : 0.99);
        reference.close();
      },
    );
    await fc.assert(property, runs(60));
  });

  it('reads a prefix that two sequences share as if each had its own', async () => {
    const model = tinyModel({ type: 'Q8_0', hiddenSize: 64, headSize: 32, ffnSize: 96 });
    const { vocabSize } = model.spec;
    const prefix = randomTokens(64, vocabSize, 5);
    const first = [...prefix, ...randomTokens(20, vocabSize, 6)];
    const second = [...prefix, ...randomTokens(40, vocabSize, 7)];
    const row = (logits: Float32Array, index: number) =>
      logits.slice(index * vocabSize, (index + 1) * vocabSize);
    await withBackend(model, { threads: 2 }, async (backend) => {
      // Blocks 9 and 4 are computed once and read by both.
      await backend.step(buildBatch([{ tokens: prefix, start: 0, blocks: [9, 4], wantLogits: 'none' }]));
      const tails = [first, second].map((tokens) => tokens.slice(64));
      const { logits } = await backend.step(
        buildBatch([
          { tokens: tails[0] as number[], start: 64, blocks: [9, 4, 0], wantLogits: 'last' },
          { tokens: tails[1] as number[], start: 64, blocks: [9, 4, 7, 2], wantLogits: 'last' },
        ]),
      );
      expect(row(logits, 0)).toEqual(row(await alone(model, first), first.length - 1));
      expect(row(logits, 1)).toEqual(row(await alone(model, second), second.length - 1));
    });
  });

  it('refuses to write into a block that another sequence of the batch can see', async () => {
    const model = tinyModel();
    const tokens = randomTokens(40, model.spec.vocabSize, 3);
    await withBackend(model, {}, async (backend) => {
      await backend.step(buildBatch([{ tokens, start: 0, blocks: [5, 6], wantLogits: 'none' }]));
      const next = { tokens: [1], start: 40, blocks: [5, 6], wantLogits: 'last' } as const;
      const shared = backend.step(buildBatch([next, { ...next, tokens: [2] }]));
      await expect(shared).rejects.toThrow('would write into block 6, which is shared');
    });
  });

  it('ignores what a reused block still holds of its last owner', async () => {
    const model = tinyModel();
    const { vocabSize } = model.spec;
    const tokens = randomTokens(7, vocabSize, 11);
    await withBackend(model, {}, async (backend) => {
      const stale = randomTokens(32, vocabSize, 12);
      await backend.step(buildBatch([{ tokens: stale, start: 0, blocks: [0], wantLogits: 'none' }]));
      const { logits } = await backend.step(
        buildBatch([{ tokens, start: 0, blocks: [0], wantLogits: 'all' }]),
      );
      expect(logits.slice()).toEqual(await alone(model, tokens));
    });
  });
});
