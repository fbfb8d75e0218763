// The webgpu backend against results computed by other implementations, to the accuracy of int8 activations.

import { expect, it } from 'vitest';
import { createReferenceBackend } from '../../src/compute/reference/backend.ts';
import { cosine } from '../support/backend-properties.ts';
import { asFolder, formulaLogits, formulaModels, knownLogits } from '../support/formula-model.ts';
import {
  embeddedGolden,
  type GoldenModel,
  goldenModels,
  isOwnModel,
  lastLogits,
  likeness,
  mlxModel,
} from '../support/golden.ts';
import { sharedGpu } from '../support/gpu-backend.ts';
import { describeOnFastestGpu, isSlowGpu } from '../support/on-gpu.ts';
import { hasTestdata } from '../support/testdata.ts';
import { some, thorough } from '../support/thorough.ts';

/** The cosine of the logits' angle; float weights see no int8 activations. */
const LEAST = 0.999;
const LEAST_FLOAT = 0.9999;

/** Few, for small tiles: a processor that plays a GPU takes its time to compile a kernel, most of all one of many rows. */
const CHUNK_TOKENS = 16;

/** Most of what models are made of; tests of features, experts, states and tensor types have the rest, beside the reference backend. */
const various = [
  'tinystories-656k-mlx-8bit',
  'gpt_oss',
  'deepseek_v3',
  'qwen3_5_moe',
  'lfm2_moe',
  'granitemoehybrid',
  'glm4_moe',
];

function isRun(model: GoldenModel): boolean {
  if (isSlowGpu) return thorough && isOwnModel(model);
  return isOwnModel(model) && (thorough || various.includes(model.name.replace('families/', '')));
}

describeOnFastestGpu('the webgpu backend', () => {
  const backends = sharedGpu();

  /** The least cosine of all cases. */
  async function leastLikeness(model: GoldenModel, chunkTokens = CHUNK_TOKENS): Promise<number> {
    const logits = await lastLogits(backends.create, model, chunkTokens);
    expect(logits.length).toBe(model.cases.length);
    return Math.min(
      ...model.cases.map((known, index) => likeness(known, logits[index] as Float32Array) ?? 1),
    );
  }

  // Shared models are of the same families, and kernels take long to compile here.
  it
    .runIf(!hasTestdata)
    .each(isSlowGpu ? some(some(Object.entries(formulaModels))) : Object.entries(formulaModels))(
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
    const logits = await lastLogits(backends.create, { ...golden, cases }, 2);
    const references = await lastLogits(
      createReferenceBackend,
      { ...golden, cases },
      Number.POSITIVE_INFINITY,
    );
    for (const [index, row] of logits.entries()) {
      expect(cosine(row, references[index] as Float32Array)).toBeGreaterThanOrEqual(LEAST);
    }
  });

  it.runIf(hasTestdata).each(hasTestdata ? goldenModels().filter(isRun) : [])(
    'computes the logits of the shared model $name',
    async (model) => {
      expect(await leastLikeness(model)).toBeGreaterThanOrEqual(LEAST);
    },
  );

  // With scales in BF16; those of the shared model above are halves.
  it.runIf(hasTestdata)('computes the logits of mlx-lm', async () => {
    const model = mlxModel('llama-4bit');
    const cases = isSlowGpu ? model.cases.slice(0, 1) : model.cases;
    expect(await leastLikeness({ ...model, cases })).toBeGreaterThanOrEqual(LEAST);
  });
});
