// Results of other implementations that a backend comes near, to the accuracy of activations of 8 bits where weights are quantized.
// Each suite is called where a backend is described; those of shared models are empty where these are absent.

import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, it } from 'vitest';
import type { CreateBackend } from '../../src/compute/backend.ts';
import {
  classifierModels,
  classifierOutputs,
  largestDifference,
  withClassifierFolder,
} from '../support/classifier-models.ts';
import { embeddedModelPath } from '../support/embedded-model.ts';
import { embeddingGoldens, leastEmbeddingCosine } from '../support/embedding-goldens.ts';
import { encoderModels, leastCosine } from '../support/encoder-models.ts';
import { asFolder } from '../support/formula-model.ts';
import {
  type GoldenModel,
  goldenModels,
  likeliest,
  likeness,
  mlxAdapter,
  mlxModel,
  runGolden,
} from '../support/golden.ts';
import { leastLikeness, mlxAdapters, mlxFolders } from '../support/mlx-folders.ts';
import { quantizedLikeness, quantizedModels } from '../support/quantized-folder.ts';
import { hasTestdata, testdata } from '../support/testdata.ts';

/** Float weights are multiplied in float32; only quantized ones see int8 activations. */
function isQuantized({ name }: GoldenModel): boolean {
  return /mlx|quants\/(?!f32|f16|bf16)/.test(name);
}

/** The shared models of every family and tensor type. */
export function sharedGoldens(create: CreateBackend): void {
  it.each(hasTestdata ? goldenModels() : [])('computes the known logits of $name', async (model) => {
    const least = isQuantized(model) ? 0.999 : 0.9999;
    const outcomes = await runGolden(create, model);
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
}

/** Over 150 tokens of the DoRA adapter the last bits of a sum decide on which side of 0.999 it is. */
const leastOfAdapter = (name: string): number => (name.endsWith('-dora') ? 0.998 : 0.999);

/**
 * Folders that mlx-lm converted, and adapters that it trains. What the backend would answer is compared with nothing here:
 * `decodes` is for backends that look at their steps themselves.
 */
export function mlxGoldens(create: CreateBackend, { decodes = false } = {}): void {
  const expectLike = async (model: GoldenModel, least: number): Promise<void> => {
    const cases = decodes ? model.cases : model.cases.map((one) => ({ ...one, greedy: [] }));
    const outcomes = await runGolden(create, { ...model, cases });
    expect(outcomes).toHaveLength(model.cases.length);
    for (const [index, { lastLogits }] of outcomes.entries()) {
      const likely = likeness(model.cases[index] as (typeof model.cases)[number], lastLogits);
      expect(likely).toBeGreaterThanOrEqual(least);
    }
  };

  it.each(mlxFolders)('has the logits of mlx-lm: %s', (folder) =>
    expectLike(mlxModel(folder), leastLikeness(folder)),
  );

  it.each(mlxAdapters)('has the logits of mlx-lm with an adapter: %s', (name) =>
    expectLike(mlxAdapter(name), leastOfAdapter(name)),
  );
}

/** Models quantized as users of vLLM have them. */
export function quantizedGoldens(create: CreateBackend): void {
  const root = mkdtempSync(join(tmpdir(), 'chairlift-quantized-'));
  afterAll(() => rmSync(root, { recursive: true }));

  it.each(Object.entries(quantizedModels))('has the logits of transformers: %s', async (_, model) => {
    expect(await quantizedLikeness(create, model, root)).toBeGreaterThan(0.999);
  });
}

/** Encoders; keys and values are halves. */
export function classifierGoldens(create: CreateBackend): void {
  it.each(Object.entries(classifierModels))('gives the scores of HF transformers: %s', async (_, model) => {
    const found = await withClassifierFolder(model, (opened) => classifierOutputs(create, model, opened));
    expect(largestDifference(model.scores, found.scores)).toBeLessThan(1e-4);
  });
}

export function encoderGoldens(create: CreateBackend): void {
  it.each(Object.entries(encoderModels))('gives the states of HF transformers: %s', async (_, model) => {
    expect(await leastCosine(create, model, asFolder(model))).toBeGreaterThan(0.99999);
  });
}

/** Vectors of texts; `least` of a model whose weights are quantized, with texts of up to `mostTokens`. */
export function vectorGoldens(
  create: CreateBackend,
  least: number,
  mostTokens = Number.POSITIVE_INFINITY,
): void {
  it('gives the vectors that PyTorch computes with the embedded model', async () => {
    const texts = embeddingGoldens.embedded.filter(({ ids }) => ids.length <= mostTokens);
    const cosine = await leastEmbeddingCosine(create, embeddedModelPath, texts);
    expect(cosine).toBeGreaterThanOrEqual(least);
  });

  it.each(hasTestdata ? embeddingGoldens.shared : [])(
    'gives the vectors that transformers computes with $model',
    async ({ model, texts }) => {
      const cosine = await leastEmbeddingCosine(create, testdata(model), texts);
      expect(cosine).toBeGreaterThanOrEqual(0.9999);
    },
  );
}
