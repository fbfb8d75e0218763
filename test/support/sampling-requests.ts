// Logits and requests of every kind: what samplers are held to the oracle with.

import fc from 'fast-check';
import { type SamplingRequest, validateSampling } from '../../src/sampling/parameters.ts';
import { seedFrom, uniformAt } from '../../src/sampling/random.ts';
import type { SampleRow } from '../../src/sampling/sample-row.ts';
import { TokenCounts } from '../../src/sampling/token-counts.ts';

export function rowOf(request: SamplingRequest, vocabSize: number, rest: Partial<SampleRow> = {}): SampleRow {
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
  // Neighbouring float32 lie farther apart than any two tokens that could both be sampled.
  coarse: (u: number) => u * 1e9,
  huge: (u: number) => (u - 0.5) * 6e38,
  mixed: (u: number) => (u < 0.5 ? u : u * 1e6),
  excluded: (u: number) => (u < 0.7 ? -Infinity : 10 * u),
  tiny: (u: number) => u * 1e-40,
} satisfies Record<string, (uniform: number) => number>;
export type Shape = keyof typeof logitOf;

export function logitsOf(shape: Shape, vocabSize: number, seed: number): Float32Array<ArrayBuffer> {
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

export const requests = fc.record({
  temperature: fc.constantFrom(0, 1e-6, 1e-5, 0.1, 0.7, 1, 1, 1.5, 20, 100),
  topK: fc.oneof(fc.constant(0), fc.integer({ min: 1, max: 60 }), fc.integer({ min: 1, max: 6000 })),
  topP: fc.oneof({ weight: 1, arbitrary: fc.constant(0) }, { weight: 9, arbitrary: share }),
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

export function rowFrom(request: Request, vocabSize: number): SampleRow {
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

export function logitsFrom(batch: readonly Request[], vocabSize: number): Float32Array<ArrayBuffer> {
  const logits = new Float32Array(batch.length * vocabSize);
  for (const [index, { shape, logitSeed }] of batch.entries()) {
    logits.set(logitsOf(shape, vocabSize, logitSeed), index * vocabSize);
  }
  return logits;
}
