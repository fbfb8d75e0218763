// Native sampling must agree with the TypeScript oracle bit for bit, whatever the logits and the request.

import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  logitsFrom,
  logitsOf,
  requests,
  rowFrom,
  rowOf,
  type Shape,
} from '../../../test/support/sampling-requests.ts';
import type { SamplingRequest } from '../../sampling/parameters.ts';
import type { SampleRows } from '../../sampling/sample-row.ts';
import { sampleRows } from '../../sampling/sampler.ts';
import { TokenCounts } from '../../sampling/token-counts.ts';
import { loadAddon } from './binding.ts';
import { createNativeSampler } from './sample-rows.ts';

const load = loadAddon();

function nativeSampler(threads: number): SampleRows {
  if (!load.available) throw new Error(load.reason);
  return createNativeSampler(load.addon, threads);
}

describe.skipIf(!load.available)('native sampling (skipped where the addon is not built)', () => {
  it('gives the bits of the oracle for any logits and parameters', () => {
    const sample = nativeSampler(1);
    const sizes = fc.oneof(
      fc.constantFrom(1, 2, 31, 32, 63, 64, 65, 1000),
      fc.integer({ min: 1, max: 5000 }),
    );
    fc.assert(
      fc.property(sizes, fc.array(requests, { minLength: 1, maxLength: 4 }), (vocabSize, batch) => {
        const logits = logitsFrom(batch, vocabSize);
        const rows = batch.map((request) => rowFrom(request, vocabSize));
        const before = logits.slice();
        expect(sample(logits, vocabSize, rows)).toEqual(sampleRows(logits, vocabSize, rows));
        expect(Buffer.from(logits.buffer).equals(Buffer.from(before.buffer))).toBe(true);
      }),
      { numRuns: 400, seed: 1 },
    );
  });

  it('gives the bits of the oracle over a vocabulary of 128 K', () => {
    const vocabSize = 128_256;
    const sample = nativeSampler(2);
    const cases: readonly (readonly [Shape, SamplingRequest])[] = [
      ['peaked', { topP: 0.95, logprobs: 20 }],
      ['peaked', { temperature: 1.7 }],
      ['flat', { topP: 0.9, minP: 0.3 }],
      ['flat', { typicalP: 0.6 }],
      ['ties', { topK: 50_000, typicalP: 0.8, topP: 0.5 }],
      ['peaked', { topK: 3000, minP: 1e-5, logprobs: 20 }],
      ['peaked', { temperature: 1.5, typicalP: 0.9, topP: 0.99, minP: 0.001 }],
      ['ties', { typicalP: 0.3, minP: 0.5 }],
      ['excluded', { topK: 100_000, topP: 0.99 }],
      ['wide', { temperature: 0.6, topK: 40, repetitionPenalty: 1.2, logprobs: 5 }],
    ];
    const logits = new Float32Array(cases.length * vocabSize);
    for (const [index, [shape]] of cases.entries())
      logits.set(logitsOf(shape, vocabSize, 3), index * vocabSize);
    const counts = new TokenCounts([1, 2, 3], [4, 5, 4]);
    const rows = cases.map(([, request], position) => rowOf(request, vocabSize, { counts, position }));
    expect(sample(logits, vocabSize, rows)).toEqual(sampleRows(logits, vocabSize, rows));
  });

  it('gives a row the same result alone, in any batch and with any number of threads', {
    timeout: 60_000,
  }, () => {
    const vocabSize = 3001;
    fc.assert(
      fc.property(
        fc.array(requests, { minLength: 2, maxLength: 9 }),
        fc.integer({ min: 1, max: 4 }),
        (batch, threads) => {
          const rows = batch.map((request) => rowFrom(request, vocabSize));
          const together = nativeSampler(threads)(logitsFrom(batch, vocabSize), vocabSize, rows);
          const alone = nativeSampler(1);
          for (const [index, request] of batch.entries()) {
            const result = alone(logitsFrom([request], vocabSize), vocabSize, rows.slice(index, index + 1));
            expect(result).toEqual([together[index]]);
          }
        },
      ),
      { numRuns: 30, seed: 2 },
    );
  });

  it('reports a broken row and leaves its neighbours alone', () => {
    const vocabSize = 70;
    const good = logitsOf('peaked', vocabSize, 1);
    const rows = [
      rowOf({}, vocabSize),
      rowOf({ temperature: 0 }, vocabSize),
      rowOf({ topP: 0.5 }, vocabSize),
    ];
    const sample = nativeSampler(2);
    const expected = sample(Float32Array.from([...good, ...good, ...good]), vocabSize, rows);
    for (const broken of [Number.NaN, Infinity]) {
      for (const place of [0, 63, 69]) {
        const logits = Float32Array.from([...good, ...good.with(place, broken), ...good]);
        const results = sample(logits, vocabSize, rows);
        expect(results[1]).toEqual({ ok: false, error: 'numeric-error' });
        expect([results[0], results[2]]).toEqual([expected[0], expected[2]]);
        expect(results).toEqual(sampleRows(logits, vocabSize, rows));
      }
    }
  });

  it('reports a broken row even where the broken token is edited or masked', () => {
    const vocabSize = 200;
    const counts = new TokenCounts([7], [7]);
    const rows = [
      rowOf({}, vocabSize, { forbidden: [7] }),
      rowOf({}, vocabSize, { mask: new Uint32Array(7).fill(0xffffff00) }),
      rowOf({ temperature: 0, logitBias: [{ token: 7, bias: -100 }] }, vocabSize),
      rowOf({ frequencyPenalty: 2 }, vocabSize, { counts }),
      rowOf({ logprobs: 2 }, vocabSize, { forbidden: [7, 7] }),
    ];
    for (const broken of [Number.NaN, -Number.NaN, Infinity]) {
      const logits = new Float32Array(rows.length * vocabSize);
      for (let row = 0; row < rows.length; row++) logits[row * vocabSize + 7] = broken;
      const results = nativeSampler(2)(logits, vocabSize, rows);
      expect(results).toEqual(rows.map(() => ({ ok: false, error: 'numeric-error' })));
      expect(results).toEqual(sampleRows(logits, vocabSize, rows));
    }
  });

  it('reports a row without a candidate', () => {
    const rows = [rowOf({}, 40), rowOf({ temperature: 0 }, 40, { mask: new Uint32Array(2) })];
    const logits = new Float32Array(80).fill(-Infinity, 0, 40);
    const results = nativeSampler(1)(logits, 40, rows);
    expect(results).toEqual([
      { ok: false, error: 'no-candidate' },
      { ok: false, error: 'no-candidate' },
    ]);
  });

  it('refuses what it could not read safely', () => {
    const sample = nativeSampler(1);
    expect(() => sample(new Float32Array(9), 10, [rowOf({}, 10)])).toThrow('too few');
    expect(() => sample(new Float32Array(64), 64, [rowOf({}, 64, { mask: new Uint32Array(1) })])).toThrow(
      'mask',
    );
    expect(() => sample(new Float32Array(10), 10, [rowOf({}, 10, { forbidden: [10] })])).toThrow(
      'no such token',
    );
    expect(() => sample(new Float32Array(10), 10, [rowOf({ presencePenalty: 1 }, 10)])).toThrow('counts');
  });
});
