// Whatever the rules of sampling accept can be sampled with: no parameter turns finite logits into ones that nothing
// can be sampled from. Logits go up to 2^121, which is far more than any model has.

import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { createNativeSampler } from '../../src/compute/cpu/sample-rows.ts';
import {
  type SamplingParameters,
  type SamplingRequest,
  validateSampling,
} from '../../src/sampling/parameters.ts';
import { seedFrom } from '../../src/sampling/random.ts';
import type { SampleResult, SampleRow, SampleRows } from '../../src/sampling/sample-row.ts';
import { sampleRows } from '../../src/sampling/sampler.ts';
import { TokenCounts } from '../../src/sampling/token-counts.ts';
import { addon, hasAddon } from '../support/native.ts';

const VOCAB_SIZE = 70;

// Everything a client could write for a number: usual ones, ends of ranges, and those far beyond.
const wild = fc.oneof(
  fc.double({ min: -2, max: 2, noNaN: true }),
  fc.double({ min: 0, max: 1, noNaN: true }),
  fc.constantFrom(0, -0, 1, -1, 2, -2, 0.01, 100, -100, 1e-5, 0.99e-5),
  fc.integer({ min: -330, max: 308 }).map((exponent) => 10 ** exponent),
  fc.integer({ min: 0, max: 80 }).map((exponent) => 2 ** exponent),
  fc.double(),
);
const token = fc.nat(VOCAB_SIZE - 1);

const requests: fc.Arbitrary<SamplingRequest> = fc.record({
  temperature: wild,
  topK: wild,
  topP: wild,
  minP: wild,
  typicalP: wild,
  repetitionPenalty: wild,
  presencePenalty: wild,
  frequencyPenalty: wild,
  logitBias: fc.array(fc.record({ token, bias: wild }), { maxLength: 3 }),
  seed: fc.oneof(wild, fc.bigInt({ min: -(2n ** 65n), max: 2n ** 65n })),
  logprobs: wild,
  minTokens: wild,
  maxTokens: wild,
});

const logit = fc.oneof(
  fc.double({ min: -30, max: 30, noNaN: true }),
  fc.constantFrom(0, -0, 2 ** 121, -(2 ** 121)),
  fc
    .record({ sign: fc.constantFrom(-1, 1), exponent: fc.integer({ min: -149, max: 121 }) })
    .map(({ sign, exponent }) => sign * 2 ** exponent),
);

const rows = fc.record({
  request: requests,
  logits: fc.array(logit, { minLength: VOCAB_SIZE, maxLength: VOCAB_SIZE }),
  prompt: fc.array(token, { maxLength: 40 }),
  answer: fc.array(token, { maxLength: 40 }),
  position: fc.nat(0xffff),
});

/** What is left of a request once everything that is refused has been taken out. */
function accepted(request: SamplingRequest): SamplingParameters {
  const validation = validateSampling(request, { vocabSize: VOCAB_SIZE, freshSeed: seedFrom(1n) });
  if (validation.ok) return validation.parameters;
  expect(request, `${validation.parameter} is refused though it is absent`).toHaveProperty(
    validation.parameter,
  );
  const { [validation.parameter]: refused, ...rest } = request;
  return accepted(rest);
}

function samplesAlways(sample: SampleRows): void {
  fc.assert(
    fc.property(rows, ({ request, logits, prompt, answer, position }) => {
      const parameters = accepted(request);
      const counts = new TokenCounts(prompt, answer);
      const row: SampleRow = { parameters, counts, position, choice: 0, forbidden: [] };
      const [result] = sample(Float32Array.from(logits), VOCAB_SIZE, [row]);
      expect(result).toMatchObject({ ok: true } satisfies Partial<SampleResult>);
    }),
    { numRuns: 1000, seed: 1 },
  );
}

describe('whatever is accepted samples a token from finite logits', () => {
  it('with the oracle', () => samplesAlways(sampleRows));

  it.skipIf(!hasAddon)('with native code (skipped where the addon is not built)', () => {
    samplesAlways(createNativeSampler(addon(), 1));
  });
});
