// What the cpu backend promises of any spec, with branches, parts, norms, attention and experts of every kind: the
// values of the reference backend, and the same bits however a sequence is computed.

import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { Backend, KvType } from '../../src/compute/backend.ts';
import { buildBatch } from '../../src/compute/batch.ts';
import { type CpuOptions, createCpuBackend } from '../../src/compute/cpu/backend.ts';
import { createReferenceBackend } from '../../src/compute/reference/backend.ts';
import type { TensorType } from '../../src/weights/tensor-type.ts';
import { BLOCKS, cosine, floatTypes, sequencesFor, together } from '../support/backend-properties.ts';
import { featuredModel, featuredModels } from '../support/featured-models.ts';
import { addon, hasAddon } from '../support/native.ts';
import { cases } from '../support/thorough.ts';
import { randomTokens, type TinyModel } from '../support/tiny-model.ts';

const open = ({ spec, weights }: TinyModel, options: Partial<CpuOptions>): Promise<Backend> =>
  createCpuBackend(addon(), spec, weights, { blockCount: BLOCKS, ...options });

async function alone(backend: Backend, tokens: readonly number[]): Promise<Float32Array> {
  const { logits } = await backend.step(
    buildBatch([{ tokens, start: 0, blocks: [2, 0, 1, 3], wantLogits: 'all' }]),
  );
  backend.close();
  return logits.slice();
}

const groupTypes: readonly TensorType[] = ['Q8_0', 'Q4_0', 'Q4_1', 'MLX4_G32_BF16'];
const models = featuredModels(['F32', 'BF16', ...groupTypes]);
// Too large for the reference backend.
const allModels = featuredModels(['F32', 'F16', ...groupTypes, 'Q4_K', 'Q6_K']);

const runs = (all: number) => ({ seed: 20261116, numRuns: cases(all, 0.25) });

describe.skipIf(!hasAddon)('the cpu backend (skipped where the addon is not built)', () => {
  it('computes what the reference backend computes, whatever a spec says', async () => {
    const property = fc.asyncProperty(models, async (options) => {
      const model = featuredModel(options);
      const { spec, weights } = model;
      const tokens = randomTokens(40, spec.vocabSize, options.model.seed);
      const actual = await alone(await open(model, {}), tokens);
      const expected = await alone(await createReferenceBackend(spec, weights, { blockCount: 4 }), tokens);
      const rows = tokens.map((_, row) => {
        const own = (logits: Float32Array) => logits.slice(row * spec.vocabSize, (row + 1) * spec.vocabSize);
        return cosine(own(actual), own(expected));
      });
      expect(actual.every(Number.isFinite)).toBe(true);
      const exact = floatTypes.includes(options.model.type ?? 'F32');
      const alike = rows.filter((one) => one > (exact ? 0.9999 : 0.99)).length;
      // Where two experts are wanted alike, rounding decides which one a row goes to, and those after it hear of it.
      expect(alike).toBeGreaterThanOrEqual(rows.length * (exact ? 0.9 : 0.5));
    });
    await fc.assert(property, runs(60));
  });

  it('gives a sequence the same bits alone and among others, in any chunks, with 1 or 2 threads', async () => {
    const property = fc.asyncProperty(allModels, fc.integer({ min: 1, max: 1e6 }), async (options, seed) => {
      const model = featuredModel(options);
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
    await fc.assert(property, runs(40));
  });

  it('gives the same bits on every ISA, with 16-bit and with 8-bit KV', async () => {
    const kvTypes = fc.constantFrom<KvType>('f16', 'q8');
    const property = fc.asyncProperty(allModels, kvTypes, async (options, kvType) => {
      const model = featuredModel(options);
      const tokens = randomTokens(50, model.spec.vocabSize, options.model.seed);
      const expected = await alone(await open(model, { isa: 'scalar', kvType }), tokens);
      for (const isa of addon().kernels()) {
        expect(await alone(await open(model, { isa, kvType }), tokens)).toEqual(expected);
      }
    });
    await fc.assert(property, runs(25));
  });
});
