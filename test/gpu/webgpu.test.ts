// What the webgpu backend promises on any model shape, on a GPU played by the processor: a sequence's logits are the
// same bits alone, in a batch, in any chunks, over scattered blocks; they are right; and tokens are sampled from them.

import fc from 'fast-check';
import { expect, it } from 'vitest';
import type { KvType } from '../../src/compute/backend.ts';
import { buildBatch } from '../../src/compute/batch.ts';
import { createWebGpuBackend } from '../../src/compute/webgpu/backend.ts';
import { openGpu } from '../../src/compute/webgpu/gpu.ts';
import type { SamplingRequest } from '../../src/sampling/parameters.ts';
import { sampleRows } from '../../src/sampling/sampler.ts';
import { TokenCounts } from '../../src/sampling/token-counts.ts';
import {
  cosine,
  floatTypes,
  models,
  sequencesFor,
  superTypes,
  together,
} from '../support/backend-properties.ts';
import { alone, byReference, gpuBackends } from '../support/gpu-backend.ts';
import { describeOnFastestGpu } from '../support/on-gpu.ts';
import { rowOf } from '../support/sampling-requests.ts';
import { randomTokens, type TinyModelOptions, tinyModel } from '../support/tiny-model.ts';

/** The same kind of model, no larger than it must be: a processor that plays a GPU is slow. */
function small(options: TinyModelOptions): TinyModelOptions {
  const { kvHeadCount = 1, headCount = 1, headSize = 32, hiddenSize = 64, ffnSize = 64 } = options;
  const most = superTypes.includes(options.type ?? 'F32') ? 256 : 64;
  return {
    ...options,
    layerCount: 1,
    headCount: Math.min(headCount, 4 * kvHeadCount),
    headSize: Math.min(headSize, 64),
    hiddenSize: Math.min(hiddenSize, most),
    ffnSize: Math.min(ffnSize, most),
  };
}

const runs = (numRuns: number) => ({ seed: 20261115, numRuns });

describeOnFastestGpu('the webgpu backend', () => {
  const backends = gpuBackends();

  it('gives a sequence the same bits alone and among others, in any chunks', async () => {
    const property = fc.asyncProperty(models, fc.integer({ min: 1, max: 1e6 }), async (options, seed) => {
      const model = tinyModel(small(options));
      const { vocabSize } = model.spec;
      // One reaches into a second segment of attention.
      const others = sequencesFor(3, vocabSize, seed).map((tokens) => tokens.slice(0, 9));
      const sequences = [randomTokens(70, vocabSize, seed), ...others];
      await backends.with(model, 'f16', async (backend) => {
        const expected = await alone(backend, sequences[0] as number[]);
        expect(expected.every(Number.isFinite)).toBe(true);
        const [actual] = await together(backend, sequences, vocabSize, seed);
        expect(actual).toEqual(expected);
      });
    });
    await fc.assert(property, runs(2));
  });

  it('computes what the reference backend computes, whatever features a model has, with both kinds of KV', async () => {
    const property = fc.asyncProperty(
      models,
      fc.constantFrom<KvType>('f16', 'q8'),
      async (options, kvType) => {
        const model = tinyModel({ ...small(options), layerCount: 2 });
        const tokens = randomTokens(36, model.spec.vocabSize, options.seed);
        const actual = await backends.with(model, kvType, (backend) => alone(backend, tokens));
        const exact = floatTypes.includes(options.type ?? 'F32') && kvType === 'f16';
        expect(cosine(actual, await byReference(model, tokens))).toBeGreaterThan(exact ? 0.9999 : 0.99);
      },
    );
    await fc.assert(property, runs(2));
  });

  it('samples tokens itself as the oracle does from its logits, in one step whatever the requests', async () => {
    const vocabSize = 300;
    const model = tinyModel({ vocabSize, layerCount: 1, hiddenSize: 16, headSize: 8, ffnSize: 16 });
    const requests: readonly SamplingRequest[] = [
      { temperature: 0 },
      { temperature: 0.8, topP: 0.9, seed: 1 },
      { temperature: 0, logprobs: 3, logitBias: [{ token: 4, bias: 3 }] },
      // All tokens must be seen for this one.
      { typicalP: 0.5, seed: 2 },
      { topK: 20, frequencyPenalty: 0.5, repetitionPenalty: 1.2, logprobs: 2, seed: 3 },
      { minP: 0.1, seed: 4 },
    ];
    const sequences = sequencesFor(requests.length, vocabSize, 3).map((tokens, index) => ({
      tokens: tokens.slice(0, 20),
      start: 0,
      blocks: [index],
      wantLogits: 'last' as const,
    }));
    const rows = requests.map((request, index) =>
      rowOf(request, vocabSize, {
        counts: new TokenCounts(sequences[index]?.tokens ?? [], [1, 2, 1]),
        position: 20,
        forbidden: [index],
        mask: index === 5 ? new Uint32Array(10).fill(0x77777777) : undefined,
      }),
    );
    await backends.with(model, 'f16', async (backend) => {
      const logits = (await backend.step(buildBatch(sequences))).logits.slice();
      const expected = sampleRows(logits, vocabSize, rows);
      for (let again = 0; again < 2; again++) {
        const { sampled } = await backend.step(buildBatch(sequences), rows);
        expect(sampled).toEqual(expected);
      }
    });
  });

  it('splits a batch that wants more rows of logits than fit its buffers, and samples for all', async () => {
    const model = tinyModel({ layerCount: 1, hiddenSize: 16, headSize: 8, ffnSize: 16 });
    const { vocabSize } = model.spec;
    const tokens = randomTokens(70, vocabSize, 5);
    const batch = buildBatch([{ tokens, start: 0, blocks: [0, 1, 2], wantLogits: 'all' }]);
    // For some all tokens must be seen.
    const rows = tokens.map((_, position) =>
      rowOf({ seed: 9, typicalP: position % 9 === 0 ? 0.5 : 1 }, vocabSize, { position }),
    );
    await backends.with(model, 'f16', async (backend) => {
      const whole = await alone(backend, tokens);
      const first = await alone(backend, tokens.slice(0, 40));
      expect(whole.length).toBe(70 * vocabSize);
      expect(whole.slice(0, first.length)).toEqual(first);
      expect((await backend.step(batch, rows)).sampled).toEqual(sampleRows(whole, vocabSize, rows));
    });
  });

  it('says so when the device is lost in the middle of a step', async () => {
    const doomed = await openGpu();
    const model = tinyModel({ layerCount: 1 });
    const backend = await createWebGpuBackend(model.spec, model.weights, { blockCount: 4, gpu: doomed });
    const batch = buildBatch([{ tokens: [1, 2, 3], start: 0, blocks: [0], wantLogits: 'last' }]);
    await backend.step(batch);
    const step = backend.step(batch);
    doomed.device.destroy();
    await expect(step).rejects.toThrow('the GPU was lost');
    await expect(backend.step(batch)).rejects.toThrow('the GPU was lost');
    backend.close();
  });
});
