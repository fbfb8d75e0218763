// Whole models have the same bits on every instruction set of this machine. Single kernels: test/native/kernel-equality.

import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterAll, describe, expect, it } from 'vitest';
import { type CreateBackend, type ImageFeatures, type KvType, kvTypes } from '../../src/compute/backend.ts';
import { buildBatch } from '../../src/compute/batch.ts';
import { createCpuBackend } from '../../src/compute/cpu/backend.ts';
import { kvTypeRefusal } from '../../src/compute/kv-type.ts';
import { BLOCKS } from '../support/backend-properties.ts';
import {
  type FormulaAdapter,
  mlxFormulaAdapters,
  stepLogits,
  writeMlxAdapter,
} from '../support/formula-adapter.ts';
import { asFolder, formulaModel } from '../support/formula-model.ts';
import { addon, hasAddon } from '../support/native.ts';
import { seeingModel, tiledImage } from '../support/seeing-model.ts';
import { cases } from '../support/thorough.ts';
import { randomTokens, type TinyModel } from '../support/tiny-model.ts';
import { allFeatures, plainModels, type RandomModel, randomEncoders, rareLayers } from './contract-models.ts';

const groups = [
  plainModels(cases(40, 0.15)),
  allFeatures(cases(25, 0.15)),
  ...rareLayers(cases(15, 0.2)),
  randomEncoders(cases(25, 0.15), ['F32', 'BF16', 'Q8_0', 'Q4_0']),
];

const by =
  (isa: string, kvType: KvType = 'f16'): CreateBackend =>
  (spec, weights, options) =>
    createCpuBackend(addon(), spec, weights, { ...options, isa, kvType });

/** Logits and final states of a text. */
async function computed(
  create: CreateBackend,
  { seed, spec, weights }: RandomModel,
): Promise<Float32Array[]> {
  const backend = await create(spec, weights, { blockCount: BLOCKS });
  const tokens = randomTokens(70, spec.vocabSize, seed);
  const sequence = { tokens, start: 0, blocks: [2, 0, 1], wantLogits: 'all', wantStates: 'all' } as const;
  const { logits, states } = await backend.step(buildBatch([sequence]));
  backend.close();
  return [logits.slice(), states.slice()];
}

/** Features of a picture, and logits of a text that begins with them. */
async function seen(create: CreateBackend, { spec, weights }: TinyModel): Promise<Float32Array[]> {
  const backend = await create(spec, weights, { blockCount: BLOCKS });
  const run = backend.beginImage?.(tiledImage(3));
  if (run === undefined) throw new Error('the backend does not see');
  await run.advance(Number.POSITIVE_INFINITY);
  const { embeddings, deepstack } = run.features as ImageFeatures;
  run.close();
  const count = embeddings.length / spec.hiddenSize;
  const places = Int32Array.from({ length: count }, (_, place) => place);
  const images = { places, embeddings, deepstack };
  const tokens = randomTokens(count + 20, spec.vocabSize);
  const { logits } = await backend.step(
    buildBatch([{ tokens, start: 0, blocks: [2, 0, 1], wantLogits: 'all', images }]),
  );
  const all = [embeddings, ...deepstack, logits.slice()];
  backend.close();
  return all;
}

describe.skipIf(!hasAddon)('every instruction set (skipped where the addon is not built)', () => {
  const folder = mkdtempSync(join(tmpdir(), 'chairlift-instruction-sets-'));
  afterAll(() => rmSync(folder, { recursive: true }));

  it.each(groups)(
    'has the bits of scalar kernels, with KV of 16, 8 and 4 bits: $name',
    async ({ models, runs }) => {
      const property = fc.asyncProperty(models, fc.constantFrom(...kvTypes), async (model, wanted) => {
        const kvType = kvTypeRefusal(wanted, 'cpu', model.spec) === undefined ? wanted : 'q8';
        const expected = await computed(by('scalar', kvType), model);
        for (const isa of addon().kernels()) expect(await computed(by(isa, kvType), model)).toEqual(expected);
      });
      await fc.assert(property, runs);
    },
  );

  it.each(['F32', 'F16', 'Q8_0'] as const)(
    'has the features of scalar kernels, and logits of rows of images, with %s',
    async (type) => {
      const model = seeingModel({ type, bothWays: true });
      const expected = await seen(by('scalar'), model);
      for (const isa of addon().kernels()) expect(await seen(by(isa), model)).toEqual(expected);
    },
  );

  it('has the bits of scalar kernels with an adapter', async () => {
    const [adapter] = mlxFormulaAdapters as [FormulaAdapter];
    const model = formulaModel(adapter.model);
    const path = writeMlxAdapter(folder, adapter);
    const asked = [{ tokens: model.ids, adapter: 0 }, { tokens: model.ids.slice(0, 9) }];
    const expected = await stepLogits(by('scalar'), asFolder(model), [path], asked);
    for (const isa of addon().kernels()) {
      expect(await stepLogits(by(isa), asFolder(model), [path], asked)).toEqual(expected);
    }
  });
});
