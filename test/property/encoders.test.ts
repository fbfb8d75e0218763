// What backends promise of any encoder: the states of the reference backend, and the same bits alone and among others.

import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { Backend, KvType } from '../../src/compute/backend.ts';
import { buildBatch } from '../../src/compute/batch.ts';
import { type CpuOptions, createCpuBackend } from '../../src/compute/cpu/backend.ts';
import { createReferenceBackend } from '../../src/compute/reference/backend.ts';
import { BLOCKS, cosine, floatTypes, sequencesFor } from '../support/backend-properties.ts';
import { addon, hasAddon } from '../support/native.ts';
import { cases } from '../support/thorough.ts';
import { randomTokens, type TinyModel, tinyModel } from '../support/tiny-model.ts';
import { encoders, statesTogether } from '../support/whole-texts.ts';

const onCpu = ({ spec, weights }: TinyModel, options: Partial<CpuOptions> = {}): Promise<Backend> =>
  createCpuBackend(addon(), spec, weights, { blockCount: BLOCKS, ...options });
const onReference = ({ spec, weights }: TinyModel): Promise<Backend> =>
  createReferenceBackend(spec, weights, { blockCount: BLOCKS });

const runs = (all: number) => ({ seed: 20261116, numRuns: cases(all, 0.25) });
const models = encoders(['F32', 'BF16', 'Q8_0', 'Q4_0']);

async function closing<Result>(
  backend: Backend,
  use: (backend: Backend) => Promise<Result>,
): Promise<Result> {
  const result = await use(backend);
  backend.close();
  return result;
}

describe('an encoder on the reference backend', () => {
  it('gives a text the same bits alone and among others', async () => {
    const property = fc.asyncProperty(encoders(['F32']), async (options) => {
      const model = tinyModel(options);
      const { hiddenSize, vocabSize } = model.spec;
      const texts = sequencesFor(3, vocabSize, options.seed ?? 1);
      const together = await closing(await onReference(model), (one) =>
        statesTogether(one, texts, hiddenSize),
      );
      const [alone] = await closing(await onReference(model), (one) =>
        statesTogether(one, texts.slice(0, 1), hiddenSize, 9),
      );
      expect(together[0]).toEqual(alone);
    });
    await fc.assert(property, runs(10));
  });

  it('lets a token hear of those behind it, as far as its window reaches', async () => {
    const states = async (window: number | undefined, last: number) => {
      const model = tinyModel({
        bidirectional: true,
        layerCount: 1,
        ...(window === undefined ? {} : { window }),
      });
      const { hiddenSize, vocabSize } = model.spec;
      const tokens = [...randomTokens(39, vocabSize), last];
      const [all] = await closing(await onReference(model), (one) =>
        statesTogether(one, [tokens], hiddenSize),
      );
      return (row: number) => all?.slice(row * hiddenSize, (row + 1) * hiddenSize);
    };
    const [one, other] = [await states(undefined, 3), await states(undefined, 4)];
    expect(one(0)).not.toEqual(other(0));
    const [near, changed] = [await states(8, 3), await states(8, 4)];
    expect(near(31)).toEqual(changed(31));
    expect(near(32)).not.toEqual(changed(32));
  });

  it('refuses a part of a text', async () => {
    const backend = await onReference(tinyModel({ bidirectional: true }));
    const part = { tokens: [1], start: 32, blocks: [0, 1], wantLogits: 'none' } as const;
    await expect(backend.step(buildBatch([part]))).rejects.toThrow('never cut');
    backend.close();
  });
});

describe.skipIf(!hasAddon)('an encoder on the cpu backend (skipped where the addon is not built)', () => {
  it('gives the states of the reference backend', async () => {
    const property = fc.asyncProperty(models, async (options) => {
      const model = tinyModel(options);
      const { hiddenSize, vocabSize } = model.spec;
      const texts = [randomTokens(70, vocabSize, options.seed)];
      const [actual] = await closing(await onCpu(model), (one) => statesTogether(one, texts, hiddenSize));
      const [expected] = await closing(await onReference(model), (one) =>
        statesTogether(one, texts, hiddenSize),
      );
      const isFloat = floatTypes.includes(options.type ?? 'F32');
      const likeness = cosine(actual as Float32Array, expected as Float32Array);
      expect(likeness).toBeGreaterThan(isFloat ? 0.99999 : 0.999);
    });
    await fc.assert(property, runs(40));
  });

  it('gives a text the same bits alone and among others, with 1 or 2 threads', async () => {
    const property = fc.asyncProperty(models, fc.integer({ min: 1, max: 1e6 }), async (options, seed) => {
      const model = tinyModel(options);
      const { hiddenSize, vocabSize } = model.spec;
      const texts = sequencesFor(9, vocabSize, seed);
      const alone = await Promise.all(
        texts.map(async (text) =>
          closing(await onCpu(model, { threads: 1 }), (one) => statesTogether(one, [text], hiddenSize, 7)),
        ),
      );
      for (const threads of [1, 2]) {
        const together = await closing(await onCpu(model, { threads }), (one) =>
          statesTogether(one, texts, hiddenSize, seed),
        );
        expect(together).toEqual(alone.flat());
      }
    });
    await fc.assert(property, runs(25));
  });

  it('gives the same bits on every ISA, with 16-bit and with 8-bit KV', async () => {
    const kvTypes = fc.constantFrom<KvType>('f16', 'q8');
    const property = fc.asyncProperty(models, kvTypes, async (options, kvType) => {
      const model = tinyModel(options);
      const { hiddenSize, vocabSize } = model.spec;
      const texts = sequencesFor(2, vocabSize, options.seed ?? 1);
      const by = async (isa: string) =>
        closing(await onCpu(model, { isa, kvType }), (one) => statesTogether(one, texts, hiddenSize));
      const expected = await by('scalar');
      for (const isa of addon().kernels()) expect(await by(isa)).toEqual(expected);
    });
    await fc.assert(property, runs(25));
  });
});
