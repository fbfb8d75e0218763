// What the cpu backend promises of models with what few families have: the values of the reference backend, and the same
// bits however a sequence is computed.

import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { Backend, KvType } from '../../src/compute/backend.ts';
import { buildBatch } from '../../src/compute/batch.ts';
import { type CpuOptions, createCpuBackend } from '../../src/compute/cpu/backend.ts';
import { createReferenceBackend } from '../../src/compute/reference/backend.ts';
import { BLOCKS, cosine, floatTypes, sequencesFor, together } from '../support/backend-properties.ts';
import { addon, hasAddon } from '../support/native.ts';
import { mlaModel, streamedModel } from '../support/rare-models.ts';
import { cases } from '../support/thorough.ts';
import { randomTokens, type TinyModel } from '../support/tiny-model.ts';

interface RareModel extends TinyModel {
  readonly seed: number;
  readonly exact: boolean;
}

const open = ({ spec, weights }: TinyModel, options: Partial<CpuOptions>): Promise<Backend> =>
  createCpuBackend(addon(), spec, weights, { blockCount: BLOCKS, ...options });

async function alone(backend: Backend, tokens: readonly number[]): Promise<Float32Array> {
  const { logits } = await backend.step(
    buildBatch([{ tokens, start: 0, blocks: [2, 0, 1, 3], wantLogits: 'all' }]),
  );
  backend.close();
  return logits.slice();
}

const seeds = fc.integer({ min: 1, max: 1e6 });

// Rows of quantized types hold whole blocks; float types take odd sizes.
const mlaModels: fc.Arbitrary<RareModel> = fc.constantFrom('F32', 'BF16', 'Q8_0', 'Q4_0').chain((type) => {
  const isFloat = floatTypes.includes(type as 'F32');
  return fc
    .record(
      {
        seed: seeds,
        type: fc.constant(type as 'F32'),
        headCount: isFloat ? fc.constantFrom(1, 3, 5, 8) : fc.constantFrom(2, 6),
        kvLoraRank: isFloat ? fc.constantFrom(20, 32, 100) : fc.constantFrom(32, 96),
        qkNopeHeadDim: isFloat ? fc.constantFrom(7, 16, 40) : fc.constantFrom(32, 64),
        qkRopeHeadDim: fc.constantFrom(4, 16),
        vHeadDim: isFloat ? fc.constantFrom(9, 16) : fc.constantFrom(16, 32),
        qLoraRank: isFloat ? fc.constantFrom(13, 48) : fc.constant(32),
      },
      {
        requiredKeys: [
          'seed',
          'type',
          'headCount',
          'kvLoraRank',
          'qkNopeHeadDim',
          'qkRopeHeadDim',
          'vHeadDim',
        ],
      },
    )
    .map((options) => ({ ...mlaModel(options), seed: options.seed, exact: isFloat }));
});

const streamedModels: fc.Arbitrary<RareModel> = fc
  .record({
    seed: seeds,
    type: fc.constantFrom('F32', 'F16', 'BF16'),
    count: fc.constantFrom(2, 4),
    hiddenSize: fc.constantFrom(40, 64),
    gateCutoff: fc.constantFrom(0.3, 1.6),
    perLayerScale: fc.boolean(),
  })
  .map((options) => ({ ...streamedModel(options), seed: options.seed, exact: true }));

const runs = (all: number) => ({ seed: 20261117, numRuns: cases(all, 0.25) });

describe.skipIf(!hasAddon).each([
  { name: 'MLA', models: mlaModels },
  { name: 'several streams, cut gates and maps of low kvLoraRank', models: streamedModels },
])('the cpu backend with $name (skipped where the addon is not built)', ({ models }) => {
  it('computes what the reference backend computes', async () => {
    const property = fc.asyncProperty(models, async ({ seed, exact, ...model }) => {
      const tokens = randomTokens(40, model.spec.vocabSize, seed);
      const actual = await alone(await open(model, {}), tokens);
      const reference = await createReferenceBackend(model.spec, model.weights, { blockCount: 4 });
      expect(cosine(actual, await alone(reference, tokens))).toBeGreaterThan(exact ? 0.9999 : 0.99);
    });
    await fc.assert(property, runs(20));
  });

  it('gives a sequence the same bits alone and among others, in any chunks, with 1 or 2 threads', async () => {
    const property = fc.asyncProperty(models, async ({ seed, ...model }) => {
      const { vocabSize } = model.spec;
      const sequences = sequencesFor(9, vocabSize, seed);
      const expected = await alone(await open(model, { threads: 1 }), sequences[0] as number[]);
      for (const threads of [1, 2]) {
        const backend = await open(model, { threads });
        const [actual] = await together(backend, sequences, vocabSize, seed + threads);
        backend.close();
        expect(actual).toEqual(expected);
      }
    });
    await fc.assert(property, runs(15));
  });

  it('gives the same bits on every ISA, with 16-bit and with 8-bit KV', async () => {
    const kvTypes = fc.constantFrom<KvType>('f16', 'q8');
    const property = fc.asyncProperty(models, kvTypes, async ({ seed, ...model }, kvType) => {
      const tokens = randomTokens(50, model.spec.vocabSize, seed);
      const expected = await alone(await open(model, { isa: 'scalar', kvType }), tokens);
      for (const isa of addon().kernels()) {
        expect(await alone(await open(model, { isa, kvType }), tokens)).toEqual(expected);
      }
    });
    await fc.assert(property, runs(15));
  });
});

it.skipIf(!hasAddon)('stores values that lie in keys once', () => {
  const keys = { headCount: 1, headSize: 576 };
  const caches = (valuesInKeys?: number) =>
    Array.from({ length: 60 }, () => (valuesInKeys === undefined ? keys : { ...keys, valuesInKeys }));
  const inKeys = addon().kvBlockBytes('f16', caches(512));
  expect(inKeys).toBe(60 * 32 * 576 * 2);
  expect(addon().kvBlockBytes('f16', caches())).toBe(2 * inKeys);
});
