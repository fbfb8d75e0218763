// The webgpu backend against results computed by other implementations, to the accuracy of int8 activations.

import { expect, it } from 'vitest';
import { createReferenceBackend } from '../../src/compute/reference/backend.ts';
import { cosine } from '../support/backend-properties.ts';
import { asFolder, formulaLogits, formulaModels, knownLogits } from '../support/formula-model.ts';
import { embeddedGolden, type GoldenModel, goldenModels, isOwnModel, lastLogits } from '../support/golden.ts';
import { gpuBackends } from '../support/gpu-backend.ts';
import { describeOnFastestGpu, isSlowGpu } from '../support/on-gpu.ts';
import { hasTestdata } from '../support/testdata.ts';

/** The cosine of the logits' angle; float weights see no int8 activations. */
const LEAST = 0.999;
const LEAST_FLOAT = 0.9999;

/** Few, for small tiles: a processor that plays a GPU takes its time to compile a kernel, most of all one of many rows. */
const CHUNK_TOKENS = 16;

describeOnFastestGpu('the webgpu backend', () => {
  const backends = gpuBackends();

  /** The least cosine of all cases. The reference backend agrees with the known logits and has all of them. */
  async function likeness(model: GoldenModel, chunkTokens = CHUNK_TOKENS): Promise<number> {
    const logits = await lastLogits(backends.create, model, chunkTokens);
    const references = await lastLogits(createReferenceBackend, model, Number.POSITIVE_INFINITY);
    expect(logits.length).toBe(model.cases.length);
    return Math.min(...logits.map((row, index) => cosine(row, references[index] as Float32Array)));
  }

  // Shared models are of the same families, and kernels take long to compile here.
  it.runIf(!hasTestdata).each(Object.entries(formulaModels))(
    'computes the logits of HF transformers: %s',
    async (_, model) => {
      const logits = await formulaLogits(backends.create, model, asFolder(model), CHUNK_TOKENS);
      const { known, computed } = knownLogits(model, logits);
      expect(cosine(computed, known)).toBeGreaterThanOrEqual(LEAST_FLOAT);
    },
  );

  it('computes the logits of the embedded model', async () => {
    const golden = embeddedGolden();
    // By far the largest model: a short prompt in small steps.
    const cases = golden.cases.filter(({ ids }) => ids.length < 8);
    expect(await likeness({ ...golden, cases }, 2)).toBeGreaterThanOrEqual(LEAST);
  });

  it.runIf(hasTestdata).each(hasTestdata ? goldenModels().filter(isOwnModel) : [])(
    'computes the logits of the shared model $name',
    async (model) => {
      const cases = isSlowGpu ? model.cases.slice(0, 1) : model.cases;
      expect(await likeness({ ...model, cases })).toBeGreaterThanOrEqual(LEAST);
    },
  );
});
