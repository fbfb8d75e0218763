// Logits are right, and the same bits however a scheduler cuts and mixes sequences.

import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { KvType } from '../../src/compute/backend.ts';
import { kvTypeRefusal } from '../../src/compute/kv-type.ts';
import { tensorLayouts } from '../../src/weights/tensor-type.ts';
import { cosine, floatTypes, sequencesFor, together } from '../support/backend-properties.ts';
import { randomTokens, type TinyModel, tinyModel } from '../support/tiny-model.ts';
import type { ContractModels, OpenBackend } from './backend-contract.ts';
import { namedModels } from './named-models.ts';
import { alone, byReference, isFloat, withBackend } from './running.ts';

export function logitsContract(open: OpenBackend, models: ContractModels): void {
  const { decoders, tensorTypes, kvTypes, named = namedModels } = models;

  describe.each(decoders)('of models with $name', ({ models: arbitrary, runs }) => {
    it('are the same bits alone and among others, in any chunks, over scattered blocks', async () => {
      const property = fc.asyncProperty(arbitrary, ({ seed, ...model }) =>
        expectSameBits(open, models, model, seed),
      );
      await fc.assert(property, runs);
    });

    it('are those of the reference backend', async () => {
      const property = fc.asyncProperty(
        arbitrary,
        fc.constantFrom(...kvTypes),
        async ({ seed, ...model }, wanted) => {
          const kvType = kvTypeRefusal(wanted, 'cpu', model.spec) === undefined ? wanted : 'q8';
          const tokens = randomTokens(Math.min(40, models.tokens), model.spec.vocabSize, seed);
          const actual = await withBackend(open, model, { kvType }, (backend) => alone(backend, tokens));
          expectAlike(model, kvType, actual, await byReference(model, tokens));
        },
      );
      await fc.assert(property, runs);
    });
  });

  it.each(named)(
    'are those of the reference backend, and the same bits in any batch: $name',
    async ({ make, kvType }) => {
      const model = make();
      await expectSameBits(open, models, model, 5, kvType);
      await expectLikeReference(open, model, kvType, models.tokens);
    },
  );

  it.each(tensorTypes)('are those of the reference backend with %s matrices', async (type) => {
    const size = Math.max(64, tensorLayouts[type].blockSize);
    const sizes = { hiddenSize: size, ffnSize: size, headSize: 64, headCount: 4, vocabSize: 64 };
    const model = tinyModel({ type, ...sizes, layerCount: 1 });
    // Too few for a second kind of tile, which six rows of 16 panels would take: a software GPU is slow to compile a kernel.
    const tokens = randomTokens(5, model.spec.vocabSize, 7);
    const actual = await withBackend(open, model, {}, (backend) => alone(backend, tokens));
    expect(actual.every(Number.isFinite)).toBe(true);
    expect(new Set(actual).size).toBeGreaterThan(actual.length / 2);
    const likeness = cosine(actual, await byReference(model, tokens));
    expect(likeness).toBeGreaterThan(floatTypes.includes(type) ? 0.9999 : 0.999);
  });
}

/** A sequence has the same bits alone and among others, in random chunks, whatever the settings. */
export async function expectSameBits(
  open: OpenBackend,
  { tokens, others, otherTokens, settings }: ContractModels,
  model: TinyModel,
  seed: number,
  kvType: KvType = 'f16',
): Promise<void> {
  const { vocabSize } = model.spec;
  const sequences = [
    randomTokens(tokens, vocabSize, seed),
    ...sequencesFor(others, vocabSize, seed + 1, otherTokens),
  ];
  let expected: Float32Array | undefined;
  for (const [index, setting] of settings.entries()) {
    await withBackend(open, model, { kvType, ...setting }, async (backend) => {
      expected ??= await alone(backend, sequences[0] as number[]);
      expect(expected.every(Number.isFinite)).toBe(true);
      const [actual] = await together(backend, sequences, vocabSize, seed + index);
      expect(actual).toEqual(expected);
    });
  }
}

/** A model without random choices has the logits of the reference backend to the last digits that its types allow. */
export async function expectLikeReference(
  open: OpenBackend,
  model: TinyModel,
  kvType: KvType,
  count: number,
): Promise<void> {
  const tokens = randomTokens(count, model.spec.vocabSize, 5);
  const actual = await withBackend(open, model, { kvType }, (backend) => alone(backend, tokens));
  const likeness = cosine(actual, await byReference(model, tokens));
  expect(likeness).toBeGreaterThan(
    isFloat(model) && kvType === 'f16' ? 0.999999 : kvType === 'q4' ? 0.97 : 0.999,
  );
}

/** To cosines, where KV is rounded to bytes or less. */
const leastLikeness: Partial<Record<KvType, number>> = { q8: 0.99, q4: 0.9 };

function expectAlike(model: TinyModel, kvType: KvType, actual: Float32Array, expected: Float32Array): void {
  expect(actual.every(Number.isFinite)).toBe(true);
  const exact = isFloat(model);
  const least = leastLikeness[kvType] ?? (exact ? 0.9999 : 0.99);
  if (!hasExperts(model)) {
    expect(cosine(actual, expected)).toBeGreaterThan(least);
    return;
  }
  // Where two experts score alike, rounding decides which one a row goes to, and later rows see it.
  const { vocabSize } = model.spec;
  const count = actual.length / vocabSize;
  const alike = Array.from({ length: count }, (_, row) => row).filter((row) => {
    const own = (logits: Float32Array) => logits.subarray(row * vocabSize, (row + 1) * vocabSize);
    return cosine(own(actual), own(expected)) > least;
  });
  expect(alike.length).toBeGreaterThanOrEqual(count * (exact ? 0.9 : 0.5));
}

const hasExperts = ({ spec }: TinyModel): boolean =>
  spec.layers.some(({ branches }) =>
    branches.some(({ parts }) => parts.some(({ body }) => body.kind === 'moe')),
  );
