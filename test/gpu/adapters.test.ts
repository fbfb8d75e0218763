// Adapters on GPUs: what PEFT computes, and rows of different ones side by side.

import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, it } from 'vitest';
import {
  adapterTensors,
  formulaAdapters,
  haveBitsOfTheirOwn,
  haveOwnBits,
  largestDifference,
  mlxFormulaAdapters,
  stepLogits,
  writeMlxAdapter,
  writePeftFolder,
} from '../support/formula-adapter.ts';
import { asFolder, formulaModel } from '../support/formula-model.ts';
import { sharedGpu } from '../support/gpu-backend.ts';
import { describeOnFastestGpu } from '../support/on-gpu.ts';
import { asDoraAdapter, asMlxAdapter, asPeftAdapter, changeOf } from '../support/published-adapters.ts';

/** Keys and values are kept in 16 bits. */
const TOLERANCE = 2e-3;

describeOnFastestGpu('adapters on a GPU', () => {
  const backends = sharedGpu();
  const folder = mkdtempSync(join(tmpdir(), 'chairlift-adapters-'));
  afterAll(() => rmSync(folder, { recursive: true }));

  it.each(formulaAdapters)('give the logits of PEFT: $model', async (adapter) => {
    const model = formulaModel(adapter.model);
    const path = writePeftFolder(join(folder, adapter.model), adapter.config, adapterTensors(adapter));
    const asked = [{ tokens: model.ids, adapter: 0 }];
    const [logits] = await stepLogits(backends.create, asFolder(model), [path], asked);
    expect(largestDifference(adapter, logits as Float32Array)).toBeLessThan(TOLERANCE);
  });

  it('have the bits that each has alone, of different ones in one step', () =>
    haveOwnBits(backends.create, folder));

  const mixture = formulaModel('qwen3 with experts');
  const whole = changeOf(mixture, /(_proj|mlp\.gate)\.weight/);

  it.each(mlxFormulaAdapters)('give the logits of mlx-lm: $model', async (adapter) => {
    const model = formulaModel(adapter.model);
    const path = writeMlxAdapter(join(folder, 'mlx-lm', adapter.model), adapter);
    const asked = [{ tokens: model.ids, adapter: 0 }];
    const [logits] = await stepLogits(backends.create, asFolder(model), [path], asked);
    expect(largestDifference(adapter, logits as Float32Array)).toBeLessThan(TOLERANCE);
  });

  it('have the bits that each has alone, also of embeddings and heads', () => {
    const model = formulaModel('gemma3 with a logit cap');
    return haveBitsOfTheirOwn(backends.create, model, [
      asMlxAdapter(join(folder, 'tied'), changeOf(model, /embed_tokens\.weight/)),
      asPeftAdapter(join(folder, 'table'), changeOf(model, /(embed_tokens|q_proj)\.weight/, 5)),
      asPeftAdapter(join(folder, 'head'), changeOf({ tensors: { 'lm_head.weight': [40, 32] } }, /lm_head/)),
    ]);
  });

  it('have the bits that each has alone, also of experts', () =>
    haveBitsOfTheirOwn(backends.create, mixture, [
      asMlxAdapter(join(folder, 'all'), whole),
      asPeftAdapter(join(folder, 'some'), changeOf(mixture, /experts\.[023]\.(up|down)_proj\.weight/, 5)),
      asDoraAdapter(join(folder, 'scaled'), changeOf(mixture, /experts\.\d\.gate_proj\.weight/)),
    ]));
});
