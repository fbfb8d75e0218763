// The cpu backend against results computed by other implementations, to the accuracy of int8 activations.

import { describe, expect, it } from 'vitest';
import type { CreateBackend } from '../../src/compute/backend.ts';
import { createCpuBackend } from '../../src/compute/cpu/backend.ts';
import { createReferenceBackend } from '../../src/compute/reference/backend.ts';
import { type GoldenModel, goldenModels, isOwnModel, likeliest, runGolden } from '../support/golden.ts';
import { addon, hasAddon } from '../support/native.ts';
import { hasTestdata } from '../support/testdata.ts';

const onCpu: CreateBackend = (spec, weights, options) => createCpuBackend(addon(), spec, weights, options);

/** Float weights are multiplied in float32; only quantized ones see int8 activations. */
function isQuantized({ name }: GoldenModel): boolean {
  return /mlx|quants\/(?!f32|f16|bf16)/.test(name);
}

function cosine(a: Float32Array, b: Float32Array): number {
  let dot = 0;
  let squareA = 0;
  let squareB = 0;
  for (const [index, x] of a.entries()) {
    const y = b[index] as number;
    dot += x * y;
    squareA += x * x;
    squareB += y * y;
  }
  return dot / Math.sqrt(squareA * squareB);
}

describe.skipIf(!hasTestdata || !hasAddon)(
  'the cpu backend on shared models (skipped where they or the addon are absent)',
  () => {
    it.each(hasTestdata ? goldenModels().filter(isOwnModel) : [])(
      'computes the known logits of $name',
      async (model) => {
        const quantized = isQuantized(model);
        const outcomes = await runGolden(onCpu, model);
        // The reference backend matches the golden values to 1e-3 and has all logits, not only the stored ones.
        const references = await runGolden(createReferenceBackend, {
          ...model,
          cases: model.cases.map(withoutGreedy),
        });
        expect(outcomes.length).toBe(model.cases.length);
        for (const [index, expected] of model.cases.entries()) {
          const logits = (outcomes[index] as { lastLogits: Float32Array }).lastLogits;
          const reference = (references[index] as { lastLogits: Float32Array }).lastLogits;
          expect(cosine(logits, reference)).toBeGreaterThanOrEqual(quantized ? 0.999 : 0.9999);
          const topTwo = expected.top8.slice(0, 2).map(([token]) => token);
          if (topTwo.length > 0) expect(topTwo).toContain(likeliest(logits));
          // A trained model has clear winners: its greedy text must come out the same.
          if (model.name.startsWith('stories260K')) expect(outcomes[index]?.greedy).toEqual(expected.greedy);
        }
      },
    );
  },
);

function withoutGreedy<Case extends GoldenModel['cases'][number]>(golden: Case): Case {
  return { ...golden, greedy: golden.greedy.slice(0, 1) };
}
