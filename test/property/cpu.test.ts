// What the cpu backend promises on any model shape: a sequence's logits are the same bits alone, in a batch,
// in any chunks, over scattered or shared blocks, on any number of threads and any ISA; and they are right.

import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { type Backend, BLOCK_TOKENS, type KvType } from '../../src/compute/backend.ts';
import { type BatchSequence, buildBatch } from '../../src/compute/batch.ts';
import { type CpuOptions, createCpuBackend } from '../../src/compute/cpu/backend.ts';
import { createReferenceBackend } from '../../src/compute/reference/backend.ts';
import type { TensorType } from '../../src/weights/tensor-type.ts';
import { addon, hasAddon } from '../support/native.ts';
import { seededRandom } from '../support/random-blocks.ts';
import { randomTokens, type TinyModel, type TinyModelOptions, tinyModel } from '../support/tiny-model.ts';

const BLOCKS = 96;

const floatTypes: readonly TensorType[] = ['F32', 'F16', 'BF16'];
const groupTypes: readonly TensorType[] = [
  'Q8_0',
  'Q4_0',
  'Q4_1',
  'Q5_0',
  'Q5_1',
  'IQ4_NL',
  'MLX4_G32',
  'MLX8_G64',
];
const superTypes: readonly TensorType[] = ['Q2_K', 'Q3_K', 'Q4_K', 'Q5_K', 'Q6_K', 'IQ4_XS'];

/** Sizes that a type's blocks divide; float types take odd ones too. */
function sizesFor(type: TensorType): fc.Arbitrary<TinyModelOptions> {
  const heads = fc.record({
    headSize: fc.constantFrom(...(floatTypes.includes(type) ? [8, 16, 24, 80, 128] : [32, 64, 128])),
    kvHeadCount: fc.constantFrom(1, 2),
    group: fc.constantFrom(1, 2, 3, 4),
  });
  const unit = superTypes.includes(type) ? 256 : floatTypes.includes(type) ? 4 : 64;
  return fc
    .tuple(heads, fc.integer({ min: 1, max: unit === 256 ? 1 : 6 }), fc.integer({ min: 1, max: 3 }))
    .map(([{ headSize, kvHeadCount, group }, hidden, ffn]) => ({
      headSize: unit === 256 ? 64 : headSize,
      kvHeadCount: unit === 256 ? 2 : kvHeadCount,
      headCount: unit === 256 ? 4 : unit === 64 ? 2 * kvHeadCount * group : kvHeadCount * group,
      hiddenSize: unit * hidden,
      ffnSize: unit * ffn * (unit === 4 ? 9 : 1),
    }));
}

const models: fc.Arbitrary<TinyModelOptions> = fc
  .constantFrom(...floatTypes, ...groupTypes, ...superTypes)
  .chain((type) =>
    fc
      .tuple(
        sizesFor(type),
        fc.record(
          {
            seed: fc.integer({ min: 1, max: 1e6 }),
            vocabSize: fc.constantFrom(64, 97, 131),
            activation: fc.constantFrom('silu', 'gelu-tanh'),
            window: fc.constantFrom(5, 33, 64),
            queryKeyNorm: fc.boolean(),
            postNorms: fc.boolean(),
            biases: fc.boolean(),
            fused: fc.boolean(),
            interleaved: fc.boolean(),
            tiedHead: fc.boolean(),
            normOffset: fc.constantFrom(0, 1),
            attentionSoftcap: fc.constantFrom(20, 50),
            logitSoftcap: fc.constantFrom(10, 30),
          },
          { requiredKeys: ['seed', 'vocabSize', 'activation'] },
        ),
      )
      .map(([sizes, features]) => ({ ...sizes, ...features, type }) as TinyModelOptions),
  );

function shuffledBlocks(seed: number): number[] {
  const random = seededRandom(seed);
  const blocks = Array.from({ length: BLOCKS }, (_, block) => block);
  for (let last = blocks.length - 1; last > 0; last--) {
    const other = Math.floor(random() * (last + 1));
    [blocks[last], blocks[other]] = [blocks[other] as number, blocks[last] as number];
  }
  return blocks;
}

const blocksFor = (tokens: number) => Math.ceil(tokens / BLOCK_TOKENS);

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

/** Several sequences together, each in its own random chunks, over scattered blocks; logits of every position. */
async function together(
  backend: Backend,
  sequences: readonly (readonly number[])[],
  vocabSize: number,
  seed: number,
): Promise<Float32Array[]> {
  const random = seededRandom(seed);
  const free = shuffledBlocks(seed);
  const running = sequences.map((tokens) => ({
    tokens,
    done: 0,
    blocks: free.splice(0, blocksFor(tokens.length)),
    logits: new Float32Array(tokens.length * vocabSize),
  }));
  for (;;) {
    const items = running
      .filter(({ done, tokens }) => done < tokens.length)
      // Some sit a step out, as sequences that join later would.
      .filter((_, index) => index === 0 || random() < 0.8)
      .map((sequence) => ({
        sequence,
        count: 1 + Math.floor(random() * (sequence.tokens.length - sequence.done)),
      }));
    if (items.length === 0) return running.map(({ logits }) => logits);
    const batch = items.map(
      ({ sequence: { tokens, done, blocks }, count }): BatchSequence => ({
        tokens: tokens.slice(done, done + count),
        start: done,
        blocks: blocks.slice(0, blocksFor(done + count)),
        wantLogits: 'all',
      }),
    );
    const { logits } = await backend.step(buildBatch(batch));
    let row = 0;
    for (const { sequence, count } of items) {
      sequence.logits.set(
        logits.subarray(row * vocabSize, (row + count) * vocabSize),
        sequence.done * vocabSize,
      );
      sequence.done += count;
      row += count;
    }
  }
}

function sequencesFor(count: number, vocabSize: number, seed: number): number[][] {
  const random = seededRandom(seed);
  return Array.from({ length: count }, (_, index) =>
    randomTokens(1 + Math.floor(random() * 120), vocabSize, seed + index),
  );
}

function cosine(a: Float32Array, b: Float32Array): number {
  const dot = (x: Float32Array, y: Float32Array) =>
    x.reduce((sum, value, index) => sum + value * (y[index] as number), 0);
  return dot(a, b) / Math.sqrt(dot(a, a) * dot(b, b));
}

const runs = (numRuns: number) => ({ seed: 20261115, numRuns });

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

  it('gives the same bits on every ISA, with 16-bit and with 8-bit K/V', async () => {
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
