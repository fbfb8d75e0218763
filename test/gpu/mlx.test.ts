// Folders that mlx-lm converted and adapters that it trains, on GPUs, against what mlx-lm itself computes.

import { expect, it } from 'vitest';
import { type GoldenModel, lastLogits, likeness, mlxAdapter, mlxModel } from '../support/golden.ts';
import { gpuBackends } from '../support/gpu-backend.ts';
import { describeOnFastestGpu } from '../support/on-gpu.ts';
import { hasTestdata } from '../support/testdata.ts';
import { thorough } from '../support/thorough.ts';

/** Activations have 8 bits where weights are quantized. */
const LEAST_LIKENESS = 0.995;
/** A processor that plays a GPU takes its time, most of all to compile kernels of many rows. */
const SHORT_TOKENS = thorough ? 40 : 5;
const CHUNK_TOKENS = thorough ? 16 : 5;

/** Layouts and modes that tests beside the reference backend do not have. */
const folders = thorough
  ? ['qwen3_moe-4bit', 'gpt_oss-4bit', 'llama4-4bit', 'deepseek_v2-4bit', 'llama-nvfp4', 'llama-mxfp8']
  : ['gpt_oss-4bit'];
const adapters = thorough ? ['llama-4bit-lora', 'llama-4bit-dora'] : ['llama-4bit-dora'];

describeOnFastestGpu('what mlx-lm makes, on a GPU', () => {
  const backends = gpuBackends();

  const expectLikeness = async (model: GoldenModel) => {
    const cases = model.cases.filter(({ ids }) => ids.length <= SHORT_TOKENS);
    const logits = await lastLogits(backends.create, { ...model, cases }, CHUNK_TOKENS);
    expect(logits.length).toBeGreaterThan(0);
    for (const [index, known] of cases.entries()) {
      expect(likeness(known, logits[index] as Float32Array)).toBeGreaterThanOrEqual(LEAST_LIKENESS);
    }
  };

  it.skipIf(!hasTestdata).each(folders)('has the logits of mlx-lm: %s', (folder) =>
    expectLikeness(mlxModel(folder)),
  );

  it.skipIf(!hasTestdata).each(adapters)('has the logits of mlx-lm with an adapter: %s', (name) =>
    expectLikeness(mlxAdapter(name)),
  );
});
