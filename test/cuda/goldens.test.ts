// Results of other implementations for every family and tensor type, on a real card; every step's values are also the processor's,
// to the last bit. What differs is listed at the end.

import { afterAll, afterEach, describe, expect, it } from 'vitest';
import { adapterContract } from '../contract/adapter-contract.ts';
import {
  classifierGoldens,
  encoderGoldens,
  mlxGoldens,
  quantizedGoldens,
  sharedGoldens,
  vectorGoldens,
} from '../contract/golden-contract.ts';
import { cosine } from '../support/backend-properties.ts';
import { BitComparison, type Difference } from '../support/bit-comparison.ts';
import { createOnCard, describeOnCard } from '../support/cuda-card.ts';
import { asFolder, formulaLogits, formulaModels, knownLogits } from '../support/formula-model.ts';
import { embeddedGolden, lastLogits } from '../support/golden.ts';
import { createOnCpu } from '../support/native.ts';
import { hasTestdata } from '../support/testdata.ts';

/** Another number than any kernel's rows, so that steps of all shapes run. */
const CHUNK_TOKENS = 23;

describeOnCard('on a card', () => {
  const comparison = new BitComparison(createOnCard, createOnCpu);
  const { create } = comparison;
  const listed: { readonly test: string; readonly differences: readonly Difference[] }[] = [];

  afterEach(({ task }) => {
    const differences = comparison.takeDifferences();
    if (differences.length > 0) listed.push({ test: task.name, differences });
    expect(differences, 'values that are not the processor’s').toEqual([]);
  });

  afterAll(() => {
    const { models, steps, values } = comparison.compared;
    const lines = listed.map(({ test, differences: [first, ...more] }) =>
      first === undefined
        ? test
        : `${test}: ${first.different} of ${first.values} ${first.of} by ${first.largest} at most, and ${more.length} more steps`,
    );
    process.stdout.write(
      `${models} models, ${steps} steps, ${values} values: ${listed.length} tests with values that are not the processor’s\n`,
    );
    for (const line of lines) process.stdout.write(`  ${line}\n`);
  });

  it.each(Object.entries(formulaModels))('computes the logits of HF transformers: %s', async (_, model) => {
    const logits = await formulaLogits(create, model, asFolder(model), CHUNK_TOKENS);
    const { known, computed } = knownLogits(model, logits);
    // Keys and values are halves.
    expect(cosine(computed, known)).toBeGreaterThanOrEqual(0.9999);
  });

  it('computes the likeliest tokens that PyTorch finds with the embedded model', async () => {
    const golden = embeddedGolden();
    const logits = await lastLogits(create, golden, CHUNK_TOKENS);
    for (const [index, { top8 }] of golden.cases.entries()) {
      const row = logits[index] as Float32Array;
      const topTwo = top8.slice(0, 2).map(([token]) => row[token]);
      expect(topTwo).toContain(row.reduce((most, value) => Math.max(most, value)));
    }
  });

  describe.skipIf(!hasTestdata)('shared models (skipped where they are absent)', () => {
    sharedGoldens(create);
    mlxGoldens(create, { decodes: true });
  });
  describe('quantized models', () => quantizedGoldens(create));
  describe('encoders', () => encoderGoldens(create));
  describe('classifiers', () => classifierGoldens(create));
  describe('vectors of texts', () => vectorGoldens(create, 0.9998));
  describe('adapters', () => adapterContract(create, { tolerance: 2e-3, everyFormat: true }));
});
