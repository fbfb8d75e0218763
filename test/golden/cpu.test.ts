// The cpu backend against results computed by other implementations, to the accuracy of int8 activations.

import { describe, expect, it } from 'vitest';
import { type GoldenModel, goldenModels, likeliest, likeness, runGolden } from '../support/golden.ts';
import { createOnCpu, hasAddon } from '../support/native.ts';
import { hasTestdata } from '../support/testdata.ts';

/** Float weights are multiplied in float32; only quantized ones see int8 activations. */
function isQuantized({ name }: GoldenModel): boolean {
  return /mlx|quants\/(?!f32|f16|bf16)/.test(name);
}

describe.skipIf(!hasTestdata || !hasAddon)(
  'the cpu backend on shared models (skipped where they or the addon are absent)',
  () => {
    it.each(hasTestdata ? goldenModels() : [])('computes the known logits of $name', async (model) => {
      const least = isQuantized(model) ? 0.999 : 0.9999;
      const outcomes = await runGolden(createOnCpu, model);
      expect(outcomes.length).toBe(model.cases.length);
      for (const [index, expected] of model.cases.entries()) {
        const logits = (outcomes[index] as { lastLogits: Float32Array }).lastLogits;
        expect(likeness(expected, logits) ?? 1).toBeGreaterThanOrEqual(least);
        const topTwo = expected.top8.slice(0, 2).map(([token]) => token);
        if (topTwo.length > 0) expect(topTwo).toContain(likeliest(logits));
        // A trained model has clear winners: its greedy text must come out the same.
        if (model.name.startsWith('stories260K')) expect(outcomes[index]?.greedy).toEqual(expected.greedy);
      }
    });
  },
);
