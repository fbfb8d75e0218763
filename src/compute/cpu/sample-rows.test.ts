// Native sampling must agree with the TypeScript oracle bit for bit, whatever the logits and the request.

import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { type SamplingRequest, validateSampling } from '../../sampling/parameters.ts';
import { seedFrom, uniformAt } from '../../sampling/random.ts';
import type { SampleRow, SampleRows } from '../../sampling/sample-row.ts';
import { sampleRows } from '../../sampling/sampler.ts';
import { TokenCounts } from '../../sampling/token-counts.ts';
import { loadAddon } from './binding.ts';
import { createNativeSampler } from './sample-rows.ts';

const load = loadAddon();

function nativeSampler(threads: number): SampleRows {
  if (!load.available) throw new Error(load.reason);
  return createNativeSampler(load.addon, threads);
}

function rowOf(request: SamplingRequest, vocabSize: number, rest: Partial<SampleRow> = {}): SampleRow {
  const validation = validateSampling(request, { vocabSize, freshSeed: seedFrom(1n) });
  if (!validation.ok) throw new Error(`${validation.parameter} ${validation.problem}`);
  return { parameters: validation.parameters, position: 0, choice: 0, forbidden: [], ...rest };
}

// Shapes of logits a sampler meets: a few likely tokens, no opinion, many ties, huge numbers, exclusions.
const logitOf = {
  peaked: (u: number) => -3 * Math.log(1 - u) - 10,
  flat: (u: number) => u / 10,
  ties: (u: number) => Math.floor(u * 5) - 2,
  equal: () => -0,
  zeros: (u: number) => (u < 0.5 ? -0 : 0),
  wide: (u: number) => (u - 0.5) * 3000,
  // Neighbouring float32 lie farther apart than any two tokens that could both be drawn.
  coarse: (u: number) => u * 1e9,
  huge: (u: number) => (u - 0.5) * 6e38,
  mixed: (u: number) => (u < 0.5 ? u : u * 1e6),
  excluded: (u: number) => (u < 0.7 ? -Infinity : 10 * u),
  tiny: (u: number) => u * 1e-40,
} satisfies Record<string, (uniform: number) => number>;
type Shape = keyof typeof logitOf;

function logitsOf(shape: Shape, vocabSize: number, seed: number): Float32Array {
  return Float32Array.from({ length: vocabSize }, (_, token) =>
    logitOf[shape](uniformAt({ low: seed, high: 7 }, token, 0)),
  );
}

const share = fc.oneof(
  fc.constant(1),
  fc.constantFrom(0.9, 0.5, 1e-9, 0.999999),
  fc.double({ min: 1e-6, max: 1, noNaN: true }),
);
const penalty = fc.constantFrom(0, 0, 0.5, -1.5, 2);
const token = fc.nat(4999);

const requests = fc.record({
  temperature: fc.constantFrom(0, 1e-6, 1e-5, 0.1, 0.7, 1, 1, 1.5, 20, 100),
  topK: fc.oneof(fc.constant(0), fc.integer({ min: 1, max: 60 }), fc.integer({ min: 1, max: 6000 })),
  topP: share,
  typicalP: fc.oneof(fc.constant(1), share),
  minP: fc.oneof(fc.constant(0), fc.constantFrom(0.05, 1, 1e-12), fc.double({ min: 0, max: 1, noNaN: true })),
  repetitionPenalty: fc.constantFrom(1, 1, 1.3, 0.5),
  presencePenalty: penalty,
  frequencyPenalty: penalty,
  logprobs: fc.option(fc.integer({ min: 0, max: 20 }), { nil: undefined }),
  bias: fc.uniqueArray(fc.record({ token, bias: fc.double({ min: -100, max: 100, noNaN: true }) }), {
    maxLength: 8,
    selector: (entry) => entry.token,
  }),
  prompt: fc.array(token, { maxLength: 40 }),
  answer: fc.array(token, { maxLength: 40 }),
  forbidden: fc.array(token, { maxLength: 4 }),
  mask: fc.option(fc.constantFrom('all', 'none', 'sparse', 'half'), { nil: undefined, freq: 3 }),
  seed: fc.bigInt({ min: -(2n ** 63n), max: 2n ** 64n - 1n }),
  position: fc.nat(0xffff),
  shape: fc.constantFrom(...(Object.keys(logitOf) as Shape[])),
  logitSeed: fc.nat(0xffff),
});
type Request = typeof requests extends fc.Arbitrary<infer Value> ? Value : never;

function maskOf(kind: 'all' | 'none' | 'sparse' | 'half', vocabSize: number): Uint32Array {
  const word = {
    all: () => 0xffffffff,
    none: () => 0,
    sparse: (i: number) => (i % 5 === 0 ? 0x10400 : 0),
    half: () => 0xf0f00f0f,
  };
  return Uint32Array.from({ length: Math.ceil(vocabSize / 32) }, (_, index) => word[kind](index));
}

function rowFrom(request: Request, vocabSize: number): SampleRow {
  const within = (tokens: readonly number[]) => tokens.filter((id) => id < vocabSize);
  const { bias, prompt, answer, forbidden, mask, position, shape, logitSeed, ...parameters } = request;
  const logitBias = bias.filter((entry) => entry.token < vocabSize);
  return rowOf({ ...parameters, logitBias }, vocabSize, {
    counts: new TokenCounts(within(prompt), within(answer)),
    position,
    forbidden: within(forbidden),
    mask: mask && maskOf(mask, vocabSize),
  });
}

function logitsFrom(batch: readonly Request[], vocabSize: number): Float32Array {
  const logits = new Float32Array(batch.length * vocabSize);
  for (const [index, { shape, logitSeed }] of batch.entries()) {
    logits.set(logitsOf(shape, vocabSize, logitSeed), index * vocabSize);
  }
  return logits;
}

describe.skipIf(!load.available)('native sampling (skipped where the addon is not built)', () => {
  it('gives the bits of the oracle for any logits and parameters', { timeout: 60_000 }, () => {
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

  it('gives the bits of the oracle over a vocabulary of 128 K', { timeout: 60_000 }, () => {
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
    for (let position = 0; position < 2; position++) {
      const rows = cases.map(([, request]) => rowOf(request, vocabSize, { counts, position }));
      expect(sample(logits, vocabSize, rows)).toEqual(sampleRows(logits, vocabSize, rows));
    }
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
