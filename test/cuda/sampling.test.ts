// Samples that CUDA's kernels prepare and the processor finishes are those of the oracle, bit for bit. On a simulated GPU.

import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { modelLogits } from '../../bench/sampling-on-gpu.ts';
import { buildBatch } from '../../src/compute/batch.ts';
import { createCudaBackend } from '../../src/compute/cuda/backend.ts';
import { finishSampling, readFound } from '../../src/compute/device-sampling/finish-sampling.ts';
import { planSampling } from '../../src/compute/device-sampling/plan-sampling.ts';
import { weighCandidates } from '../../src/sampling/candidates.ts';
import { adjustedLogits } from '../../src/sampling/logit-edits.ts';
import type { SampleResult, SampleRow } from '../../src/sampling/sample-row.ts';
import { sampleRows } from '../../src/sampling/sampler.ts';
import { TokenCounts } from '../../src/sampling/token-counts.ts';
import type { OpenBackend } from '../contract/backend-contract.ts';
import { whole, withBackend } from '../contract/running.ts';
import { samplingContract } from '../contract/sampling-contract.ts';
import { BLOCKS } from '../support/backend-properties.ts';
import { logitsFrom, logitsOf, requests, rowFrom, rowOf } from '../support/sampling-requests.ts';
import { simulatedGpu } from '../support/simulated-gpu.ts';
import { tinyModel } from '../support/tiny-model.ts';

const { addon } = simulatedGpu();
/** Candidates that are listed at least, where likely tokens lie scattered. */
const LISTED_AT_LEAST = 512;

function sample(logits: Float32Array, vocabSize: number, rows: readonly SampleRow[]) {
  const planned = planSampling(rows, vocabSize, 1 << 20);
  const { words, lists, byteLength } = planned;
  const found = new Uint32Array(byteLength / 4);
  addon().probeSampling(0, new Uint8Array(1), logits, vocabSize, words, lists, 0, found);
  return {
    /** `undefined` where the processor must see the logits. */
    results: finishSampling(found.buffer, rows, planned, vocabSize) as readonly (SampleResult | undefined)[],
    foundOf: readFound(found.buffer, rows.length),
  };
}

/** Every row that is decided is the oracle's; how many there are. */
function expectSame(logits: Float32Array, vocabSize: number, rows: readonly SampleRow[]): number {
  const { results } = sample(logits, vocabSize, rows);
  const expected = sampleRows(logits, vocabSize, rows);
  expect(results).toEqual(expected.map((result, index) => results[index] && result));
  return results.filter((result) => result !== undefined).length;
}

const onSimulated: OpenBackend = ({ spec, weights }, options) =>
  createCudaBackend(addon(), spec, weights, { blockCount: BLOCKS, kernels: new Uint8Array(1), ...options });

describe('sampling in steps of the cuda backend', () => {
  samplingContract(onSimulated);

  it('samples by the requests of each step where steps of one shape are replayed', async () => {
    const model = tinyModel({ vocabSize: 1100, layerCount: 1, hiddenSize: 16, headSize: 8, ffnSize: 16 });
    const { vocabSize } = model.spec;
    const mask = new Uint32Array(35).fill(0x0f0f0f0f);
    const counts = new TokenCounts([1, 2, 3], [5, 5]);
    const steps: readonly (readonly SampleRow[])[] = [
      [1, 2, 3, 4].map((seed) => rowOf({ seed }, vocabSize, { mask })),
      [5, 6].map((seed) => rowOf({ seed, topK: 5, frequencyPenalty: 1 }, vocabSize, { counts })),
      [7, 8, 9].map((seed) => rowOf({ seed, topP: 0.5 }, vocabSize, { forbidden: [seed] })),
      [10, 11, 12].map(() => rowOf({ temperature: 0 }, vocabSize)),
      [13, 14, 15].map(() => rowOf({ temperature: 0 }, vocabSize, { mask })),
    ];
    await withBackend(onSimulated, model, {}, async (backend) => {
      for (const [index, rows] of steps.entries()) {
        const batch = buildBatch(
          rows.map((_, row) => ({ ...whole([index, row, 7], [row]), wantStates: 'last' as const })),
        );
        const { logits, states } = await backend.step(batch);
        const expected = { sampled: sampleRows(logits, vocabSize, rows), states: states.slice() };
        const { sampled, states: statesToo } = await backend.step(batch, rows);
        expect({ sampled, states: statesToo }).toEqual(expected);
      }
    });
  });

  it('refuses requests for other rows than the step wants', async () => {
    const model = tinyModel({ layerCount: 1, hiddenSize: 16, headSize: 8, ffnSize: 16 });
    await withBackend(onSimulated, model, {}, async (backend) => {
      const batch = buildBatch([whole([1, 2], [0])]);
      await expect(backend.step(batch, [])).rejects.toThrow('0 samples were given for 1 rows');
    });
  });
});

describe('sampling by CUDA kernels', () => {
  it('gives the tokens and log-probabilities of the oracle, whatever the logits and the requests', () => {
    const sizes = fc.oneof(fc.constantFrom(1, 2, 255, 1023, 1024, 1025), fc.integer({ min: 1, max: 5000 }));
    let rows = 0;
    let decided = 0;
    const property = fc.property(
      sizes,
      fc.array(requests, { minLength: 1, maxLength: 8 }),
      (vocabSize, batch) => {
        const sampled = batch.map((request) => rowFrom(request, vocabSize));
        decided += expectSame(logitsFrom(batch, vocabSize), vocabSize, sampled);
        rows += batch.length;
      },
    );
    fc.assert(property, { seed: 20261118, numRuns: 16 });
    expect(decided / rows).toBeGreaterThan(0.4);
  });

  it('weighs and orders tokens as the oracle does, to the last unit', () => {
    const property = fc.property(
      fc.integer({ min: 2, max: 10_000 }),
      fc.constantFrom('peaked', 'flat', 'ties', 'wide', 'coarse', 'excluded', 'huge', 'tiny', 'zeros'),
      fc.double({ min: 1e-5, max: 100, noNaN: true }),
      fc.nat(0xffff),
      (vocabSize, shape, temperature, seed) => {
        const logits = logitsOf(shape, vocabSize, seed);
        const { foundOf } = sample(logits, vocabSize, [rowOf({ temperature }, vocabSize)]);
        const found = foundOf(0, 0);
        const { list, total } = weighCandidates(logits, found.highest, temperature);
        expect(found.isOdd).toBe(false);
        expect(found.highest === list[0]?.logit).toBe(true);
        expect(found.total).toBe(total);
        const listed = found.between(0, found.listed).slice(0, list.length);
        const expected = list.slice(0, listed.length);
        expect(listed.map(({ token }) => token)).toEqual(expected.map(({ token }) => token));
        // Both zeros are one.
        expect(listed.every(({ logit }, index) => logit === expected[index]?.logit)).toBe(true);
        if (shape === 'peaked')
          expect(listed.length).toBeGreaterThanOrEqual(Math.min(LISTED_AT_LEAST, list.length));
      },
    );
    fc.assert(property, { seed: 20261118, numRuns: 20 });
  });

  it('adjusts logits as the oracle does, to the last bit', () => {
    // Blocks of several warps adjust what others read.
    const vocabSize = 4900;
    const between = (low: number, high: number) =>
      fc.integer({ min: low * 1e6, max: high * 1e6 }).map((millionths) => millionths / 1e6);
    const bias = fc.uniqueArray(fc.record({ token: fc.nat(vocabSize - 1), bias: between(-100, 100) }), {
      maxLength: 300,
      selector: ({ token }) => token,
    });
    const tokens = fc.array(fc.nat(vocabSize - 1), { maxLength: 2000 });
    const request = fc.record({
      logitBias: bias,
      repetitionPenalty: between(0.01, 100),
      presencePenalty: between(-2, 2),
      frequencyPenalty: between(-2, 2),
    });
    const property = fc.property(request, tokens, tokens, fc.nat(0xffff), (request, prompt, answer, seed) => {
      const counts = new TokenCounts(prompt, answer);
      const row = rowOf(request, vocabSize, { counts, forbidden: [...prompt.slice(0, 200), 3, 4, 3] });
      const logits = logitsOf('peaked', vocabSize, seed);
      const found = sample(logits, vocabSize, [row]).foundOf(0, 0);
      const expected = Array.from(adjustedLogits(logits, row), (logit, token) => ({ token, logit }))
        .filter(({ logit }) => logit !== -Infinity)
        .sort((a, b) => b.logit - a.logit || a.token - b.token);
      expect(found.listed).toBeGreaterThanOrEqual(Math.min(LISTED_AT_LEAST, expected.length));
      expect(found.between(0, found.listed)).toEqual(expected.slice(0, found.listed));
    });
    fc.assert(property, { seed: 20261118, numRuns: 8 });
  });

  it('decides usual requests at once, over a vocabulary of 130 K', () => {
    const vocabSize = 130_001;
    const seen = Array.from({ length: 3000 }, (_, index) => (index * 7919) % vocabSize);
    const counts = new TokenCounts(seen, [5, 6, 7, 5]);
    const penalties = { repetitionPenalty: 1.1, presencePenalty: 0.5, frequencyPenalty: 0.3 };
    const mask = Uint32Array.from({ length: Math.ceil(vocabSize / 32) }, (_, index) => index * 0x9e3779b1);
    const rows = [
      rowOf({ temperature: 0, ...penalties, logprobs: 5 }, vocabSize, { counts }),
      rowOf({ temperature: 0.7 }, vocabSize),
      rowOf({ topP: 0.95, ...penalties }, vocabSize, { counts, forbidden: [1, 2] }),
      rowOf({ topP: 0.9, logitBias: [{ token: 9, bias: 12.3 }] }, vocabSize, { mask }),
    ];
    expect(expectSame(modelLogits(vocabSize, rows.length, 1.8), vocabSize, rows)).toBe(rows.length);
    const greedy = [rowOf({ temperature: 0 }, vocabSize), rowOf({ temperature: 0 }, vocabSize, { mask })];
    expect(expectSame(modelLogits(vocabSize, greedy.length, 1.8), vocabSize, greedy)).toBe(greedy.length);
  });

  it('leaves rows to the processor that have a logit of NaN or infinity, even of tokens that may not be sampled', () => {
    const vocabSize = 3001;
    const counts = new TokenCounts([7], [7]);
    const rows = [
      rowOf({}, vocabSize),
      rowOf({ temperature: 0 }, vocabSize, { forbidden: [7] }),
      rowOf({ temperature: 0 }, vocabSize, { mask: new Uint32Array(94).fill(0xffffff00) }),
      rowOf({ temperature: 0, logitBias: [{ token: 7, bias: -100 }] }, vocabSize),
      rowOf({ temperature: 0, frequencyPenalty: 2, repetitionPenalty: 2 }, vocabSize, { counts }),
    ];
    for (const odd of [Number.NaN, Infinity]) {
      const logits = new Float32Array(rows.length * vocabSize);
      for (let row = 0; row < rows.length; row++) logits[row * vocabSize + 7] = odd;
      expect(sample(logits, vocabSize, rows).results).toEqual(rows.map(() => undefined));
    }
  });

  it('decides rows of numbers that only just are some', () => {
    const vocabSize = 1500;
    const rows = [rowOf({ temperature: 0 }, vocabSize), rowOf({ topP: 0.9, logprobs: 2 }, vocabSize)];
    for (const odd of [3.4e38, -3.4e38, 1e-40, -1e-39, -0]) {
      const logits = new Float32Array(rows.length * vocabSize);
      for (let row = 0; row < rows.length; row++) {
        logits.set(logitsOf('peaked', vocabSize, row), row * vocabSize);
        logits[row * vocabSize + 7] = odd;
      }
      expect(expectSame(logits, vocabSize, rows)).toBe(rows.length);
    }
  });

  it('says where there is no candidate', () => {
    const vocabSize = 1030;
    const rows = [
      rowOf({}, vocabSize),
      rowOf({ temperature: 0, logprobs: 3 }, vocabSize, { mask: new Uint32Array(33) }),
      rowOf({}, vocabSize, { forbidden: [4] }),
    ];
    const logits = new Float32Array(rows.length * vocabSize).fill(-Infinity);
    logits.fill(1, vocabSize, 2 * vocabSize);
    logits[2 * vocabSize + 4] = 5;
    const { results } = sample(logits, vocabSize, rows);
    expect(results).toEqual(rows.map(() => ({ ok: false, error: 'no-candidate' })));
  });
});
