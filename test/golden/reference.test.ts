// The reference backend against results computed by other implementations.

import { describe, expect, it } from 'vitest';
import { createReferenceBackend } from '../../src/compute/reference/backend.ts';
import {
  type GoldenCase,
  type GoldenModel,
  goldenModels,
  isOwnModel,
  largestDifference,
  runGolden,
} from '../support/golden.ts';
import { hasTestdata } from '../support/testdata.ts';
import { some, thorough } from '../support/thorough.ts';

// Relative to the logit's size or 1, the larger. BF16 rounds the weights themselves to 8 bits.
const TOLERANCE = 1e-3;
const BF16_TOLERANCE = 3e-2;

/** Steps of one token, after which the next would show no more: all of them take a minute. */
const GREEDY_TOKENS = thorough ? Number.POSITIVE_INFINITY : 3;

// Twins in another format run on the cpu backend, which is faster.
const models = hasTestdata
  ? ofEveryFamily(goldenModels().filter((model) => thorough || isOwnModel(model)))
  : [];

/** Every family, and a third of the tensor types: the cpu backend's goldens have all, and so have tests of their readers. */
function ofEveryFamily(all: readonly GoldenModel[]): readonly GoldenModel[] {
  const isQuantized = ({ name }: GoldenModel) => name.startsWith('quants/');
  return [...all.filter((model) => !isQuantized(model)), ...some(all.filter(isQuantized))];
}

/** The shortest, and the longest, which reaches beyond windows and blocks; the cpu backend's goldens have all. */
function shortestAndLongest(cases: readonly GoldenCase[]): readonly GoldenCase[] {
  if (thorough || cases.length < 3) return cases;
  const byLength = [...cases].sort((one, other) => one.ids.length - other.ids.length);
  return [byLength[0] as GoldenCase, byLength.at(-1) as GoldenCase];
}

describe.skipIf(!hasTestdata)(
  'the reference backend on shared models (skipped where they are absent)',
  () => {
    it.each(models)('computes the known logits and greedy ids of $name', async ({ cases, ...model }) => {
      const shortened = shortestAndLongest(cases).map((one) => ({
        ...one,
        greedy: one.greedy.slice(0, GREEDY_TOKENS),
      }));
      const outcomes = await runGolden(createReferenceBackend, { ...model, cases: shortened });
      expect(outcomes.length).toBeGreaterThan(0);
      for (const [index, expected] of shortened.entries()) {
        const outcome = outcomes[index];
        if (outcome === undefined) throw new Error(`case ${index} gave no outcome`);
        const tolerance = model.approximate ? BF16_TOLERANCE : TOLERANCE;
        expect(largestDifference(outcome.lastLogits, expected)).toBeLessThan(tolerance);
        if (expected.midTop1.length > 0) expect(outcome.midTop1).toEqual(expected.midTop1);
        expect(outcome.greedy).toEqual(expected.greedy);
      }
    });
  },
);
