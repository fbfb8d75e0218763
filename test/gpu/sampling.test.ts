// Samples that a GPU prepares and the processor finishes are those of the oracle, bit for bit, and few rows need more than
// what comes back at first. On a GPU played by the processor.

import fc from 'fast-check';
import { expect, it } from 'vitest';
import { modelLogits, samplingOnGpu } from '../../bench/sampling-on-gpu.ts';
import type { Found } from '../../src/compute/device-sampling/finish-sampling.ts';
import type { Gpu } from '../../src/compute/webgpu/gpu.ts';
import { LISTED_AT_LEAST } from '../../src/compute/webgpu/kernels/sampling.ts';
import { weighCandidates } from '../../src/sampling/candidates.ts';
import { adjustedLogits } from '../../src/sampling/logit-edits.ts';
import type { SamplingRequest } from '../../src/sampling/parameters.ts';
import { uniformAt } from '../../src/sampling/random.ts';
import type { SampleResult, SampleRow } from '../../src/sampling/sample-row.ts';
import { sampleRows } from '../../src/sampling/sampler.ts';
import { TokenCounts } from '../../src/sampling/token-counts.ts';
import { sharedGpu } from '../support/gpu-backend.ts';
import { describeOnFastestGpu } from '../support/on-gpu.ts';
import { logitsFrom, logitsOf, requests, rowFrom, rowOf } from '../support/sampling-requests.ts';

let gpu: () => Gpu;

interface Samples {
  /** `undefined` where the processor must see the logits. */
  readonly results: readonly (SampleResult | undefined)[];
  foundOf(row: number, job: number): Found;
}

async function sample(
  logits: Float32Array<ArrayBuffer>,
  vocabSize: number,
  rows: readonly SampleRow[],
): Promise<Samples> {
  const samples = await samplingOnGpu(gpu(), logits, vocabSize);
  const planned = samples.plan(rows);
  await samples.prepare();
  const answer = await samples.read(planned);
  const after = await samples.readLogits();
  samples.close();
  // As bytes, for what is no number equals nothing.
  expect(Buffer.from(after.buffer).equals(Buffer.from(logits.buffer))).toBe(true);
  return {
    results: samples.finish(answer, planned, rows),
    foundOf: (row, job) => samples.foundOf(answer, row, job),
  };
}

/** Every row that is decided is the oracle's; how many there are. */
async function expectSame(
  logits: Float32Array<ArrayBuffer>,
  vocabSize: number,
  rows: readonly SampleRow[],
): Promise<number> {
  const { results } = await sample(logits, vocabSize, rows);
  const expected = sampleRows(logits, vocabSize, rows);
  expect(results).toEqual(expected.map((result, index) => results[index] && result));
  return results.filter((result) => result !== undefined).length;
}

describeOnFastestGpu('sampling on a GPU', () => {
  ({ gpu } = sharedGpu());

  it('gives the tokens and log-probabilities of the oracle, whatever the logits and the requests', async () => {
    const sizes = fc.oneof(fc.constantFrom(1, 2, 255, 1023, 1024, 1025), fc.integer({ min: 1, max: 5000 }));
    let rows = 0;
    let decided = 0;
    const property = fc.asyncProperty(
      sizes,
      fc.array(requests, { minLength: 1, maxLength: 12 }),
      async (vocabSize, batch) => {
        const sampled = batch.map((request) => rowFrom(request, vocabSize));
        decided += await expectSame(logitsFrom(batch, vocabSize), vocabSize, sampled);
        rows += batch.length;
      },
    );
    await fc.assert(property, { seed: 20261115, numRuns: 30 });
    expect(decided / rows).toBeGreaterThan(0.4);
  });

  it('weighs and orders tokens as the oracle does, to the last unit', async () => {
    const temperatures = fc.double({ min: 1e-5, max: 100, noNaN: true });
    const property = fc.asyncProperty(
      fc.integer({ min: 2, max: 20_000 }),
      fc.constantFrom('peaked', 'flat', 'ties', 'wide', 'coarse', 'excluded'),
      fc.array(temperatures, { minLength: 4, maxLength: 4 }),
      fc.nat(0xffff),
      async (vocabSize, shape, [first = 1, ...others], seed) => {
        const usual = others.map((temperature) => 0.3 + (temperature % 2));
        const rows = [first, ...usual].map((temperature) => rowOf({ temperature }, vocabSize));
        const one = logitsOf(shape, vocabSize, seed);
        const logits = new Float32Array(rows.length * vocabSize);
        for (const index of rows.keys()) logits.set(one, index * vocabSize);
        const { foundOf } = await sample(logits, vocabSize, rows);
        for (const [index, { parameters }] of rows.entries()) {
          const found = foundOf(index, 0);
          const { list, total } = weighCandidates(one, found.highest, parameters.temperature);
          expect(found.highest).toBe(list[0]?.logit);
          expect(found.total).toBe(total);
          const listed = found.between(0, found.listed).slice(0, list.length);
          expect(listed).toEqual(list.slice(0, listed.length).map(({ token, logit }) => ({ token, logit })));
          if (shape === 'peaked')
            expect(listed.length).toBeGreaterThanOrEqual(Math.min(LISTED_AT_LEAST, list.length));
        }
      },
    );
    await fc.assert(property, { seed: 20261115, numRuns: 12 });
  });

  it('adjusts logits as the oracle does, to the last bit', async () => {
    const vocabSize = 900;
    const between = (low: number, high: number) =>
      fc.integer({ min: low * 1e6, max: high * 1e6 }).map((millionths) => millionths / 1e6);
    const bias = fc.uniqueArray(fc.record({ token: fc.nat(vocabSize - 1), bias: between(-100, 100) }), {
      maxLength: 300,
      selector: ({ token }) => token,
    });
    const tokens = fc.array(fc.nat(vocabSize - 1), { maxLength: 2000 });
    const property = fc.asyncProperty(
      fc.record({
        logitBias: bias,
        repetitionPenalty: between(0.01, 100),
        presencePenalty: between(-2, 2),
        frequencyPenalty: between(-2, 2),
      }),
      tokens,
      tokens,
      fc.nat(0xffff),
      async (request, prompt, answer, seed) => {
        const row = rowOf(request, vocabSize, {
          counts: new TokenCounts(prompt, answer),
          forbidden: [3, 4, 3],
        });
        const logits = logitsOf('peaked', vocabSize, seed);
        const { foundOf } = await sample(logits, vocabSize, [row]);
        const found = foundOf(0, 0);
        if (found.isOdd) return;
        const expected = Array.from(adjustedLogits(logits, row), (logit, token) => ({ token, logit }))
          .filter(({ logit }) => logit !== -Infinity)
          .sort((a, b) => b.logit - a.logit || a.token - b.token);
        expect(found.between(0, found.listed)).toEqual(expected);
      },
    );
    await fc.assert(property, { seed: 20261115, numRuns: 30 });
  });

  it('decides usual requests at once, over a vocabulary of 130 K', async () => {
    const vocabSize = 130_001;
    const counts = new TokenCounts(
      Array.from({ length: 3000 }, (_, index) =>
        Math.floor(vocabSize * uniformAt({ low: 1, high: 1 }, index, 0)),
      ),
      [5, 6, 7, 5],
    );
    const penalties = { repetitionPenalty: 1.1, presencePenalty: 0.5, frequencyPenalty: 0.3 };
    const mask = Uint32Array.from({ length: Math.ceil(vocabSize / 32) }, (_, index) => index * 0x9e3779b1);
    const usual: readonly (readonly [SamplingRequest, Partial<SampleRow>])[] = [
      [{ temperature: 0 }, {}],
      [{ temperature: 0, ...penalties, logprobs: 5 }, { counts }],
      [{ temperature: 0.7 }, {}],
      [{ temperature: 0.8, topP: 0.95 }, {}],
      [{ topK: 40, topP: 0.9, logprobs: 20 }, {}],
      [{ temperature: 1.5, minP: 0.05 }, {}],
      [
        { topP: 0.95, ...penalties },
        { counts, forbidden: [1, 2] },
      ],
      [{ topP: 0.9, logitBias: [{ token: 9, bias: 12.3 }] }, { mask }],
    ];
    const rows = [1, 2].flatMap((position) =>
      usual.map(([request, rest]) => rowOf({ ...request, seed: 5 }, vocabSize, { position, ...rest })),
    );
    const decided = await expectSame(modelLogits(vocabSize, rows.length, 1.8), vocabSize, rows);
    expect(decided).toBe(rows.length);
  });

  it('leaves rows to the processor whose logits are no plain numbers, even of tokens that may not be sampled', async () => {
    const vocabSize = 3001;
    const counts = new TokenCounts([7], [7]);
    const rows = [
      rowOf({}, vocabSize),
      rowOf({ temperature: 0 }, vocabSize, { forbidden: [7] }),
      rowOf({ temperature: 0 }, vocabSize, { mask: new Uint32Array(94).fill(0xffffff00) }),
      rowOf({ temperature: 0, logitBias: [{ token: 7, bias: -100 }] }, vocabSize),
      rowOf({ temperature: 0, frequencyPenalty: 2, repetitionPenalty: 2 }, vocabSize, { counts }),
    ];
    for (const odd of [Number.NaN, -Number.NaN, Infinity, 3e38, -2e30, 1e-40, -1e-39]) {
      const logits = new Float32Array(rows.length * vocabSize);
      for (let row = 0; row < rows.length; row++) logits[row * vocabSize + 7] = odd;
      const { results } = await sample(logits, vocabSize, rows);
      expect(results).toEqual(rows.map(() => undefined));
    }
  });

  it('says where there is no candidate', async () => {
    const vocabSize = 1030;
    const rows = [
      rowOf({}, vocabSize),
      rowOf({ temperature: 0, logprobs: 3 }, vocabSize, { mask: new Uint32Array(33) }),
      rowOf({}, vocabSize, { forbidden: [4] }),
    ];
    const logits = new Float32Array(rows.length * vocabSize).fill(-Infinity);
    logits.fill(1, vocabSize, 2 * vocabSize);
    logits[2 * vocabSize + 4] = 5;
    const { results } = await sample(logits, vocabSize, rows);
    expect(results).toEqual(rows.map(() => ({ ok: false, error: 'no-candidate' })));
  });
});
