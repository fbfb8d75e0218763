// The cuda backend on a real card: the contract of all backends, and the processor's bits for models that other implementations
// know the results of.

import { expect, it } from 'vitest';
import { createCpuBackend } from '../../src/compute/cpu/backend.ts';
import { type TensorType, tensorLayouts } from '../../src/weights/tensor-type.ts';
import { backendContract, type OpenBackend } from '../contract/backend-contract.ts';
import { allFeatures, plainModels, randomEncoders, rareLayers } from '../contract/contract-models.ts';
import { BLOCKS } from '../support/backend-properties.ts';
import { createOnCard, describeOnCard } from '../support/cuda-card.ts';
import { asFolder, formulaLogits, formulaModels, knownLogits } from '../support/formula-model.ts';
import { embeddedGolden, goldenModels, isOwnModel, lastLogits } from '../support/golden.ts';
import { addon } from '../support/native.ts';
import { hasTestdata } from '../support/testdata.ts';
import { cases } from '../support/thorough.ts';

const onCard: OpenBackend = ({ spec, weights }, options) =>
  createOnCard(spec, weights, { blockCount: BLOCKS, ...options });

const onCpu: typeof createOnCard = (spec, weights, options) =>
  createCpuBackend(addon(), spec, weights, options);

/** Another number than any kernel's rows, so that steps of all shapes run. */
const CHUNK_TOKENS = 23;

describeOnCard('the cuda backend on a card', () => {
  backendContract(onCard, {
    decoders: [plainModels(cases(30, 0.25)), allFeatures(cases(30, 0.25)), ...rareLayers(cases(10, 0.25))],
    encoders: [randomEncoders(cases(20, 0.25), ['F32', 'BF16', 'Q8_0', 'Q4_0'])],
    tensorTypes: Object.keys(tensorLayouts) as TensorType[],
    kvTypes: ['f16', 'q8'],
    tokens: 100,
    others: 16,
    otherTokens: 120,
    texts: [70, 3, 130, 33, 1],
    settings: [{ threads: 1 }],
  });

  it.each(Object.entries(formulaModels))(
    'computes the processor’s bits and the logits of HF transformers: %s',
    async (_, model) => {
      const folder = asFolder(model);
      const computed = await formulaLogits(createOnCard, model, folder, CHUNK_TOKENS);
      expect(computed).toEqual(await formulaLogits(onCpu, model, folder, CHUNK_TOKENS));
      const known = knownLogits(model, computed);
      for (const [at, value] of known.known.entries()) expect(known.computed[at]).toBeCloseTo(value, 2);
    },
  );

  it.each([embeddedGolden(), ...(hasTestdata ? goldenModels().filter(isOwnModel) : [])])(
    'computes the processor’s bits: $name',
    async (model) => {
      expect(await lastLogits(createOnCard, model, CHUNK_TOKENS)).toEqual(
        await lastLogits(onCpu, model, CHUNK_TOKENS),
      );
    },
  );
});
