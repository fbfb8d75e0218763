// Folders that mlx-lm converted and adapters that it trains, on GPUs, against what mlx-lm itself computes. CHAIRLIFT_TESTS=all
// takes all of them, with every case and the ids of greedy decoding: a quarter of an hour on a processor that plays a GPU.

import { expect, it } from 'vitest';
import {
  type GoldenCase,
  type GoldenModel,
  lastLogits,
  likeness,
  mlxAdapter,
  mlxModel,
  runGolden,
} from '../support/golden.ts';
import { sharedGpu } from '../support/gpu-backend.ts';
import { agreeing, isFloats, leastLikeness, mlxAdapters, mlxFolders } from '../support/mlx-folders.ts';
import { describeOnFastestGpu } from '../support/on-gpu.ts';
import { hasTestdata } from '../support/testdata.ts';
import { thorough } from '../support/thorough.ts';

/** A processor that plays a GPU takes its time, most of all to compile kernels of many rows. */
const SHORT_TOKENS = 5;
/** There two scores of a router differ by a hundred thousandth, and on GPUs the other expert is chosen. */
const withOtherExperts: Readonly<Record<string, number>> = { 'qwen3_5_moe-4bit': 0.99 };
const leastOnGpu = (folder: string) => withOtherExperts[folder] ?? leastLikeness(folder);

/** Of all positions, those whose likeliest token is mlx-lm's; with floats all but near ties are. */
const LEAST_AGREEING = 0.7;
const LEAST_AGREEING_FLOATS = 0.99;

describeOnFastestGpu('what mlx-lm makes, on a GPU', () => {
  const backends = sharedGpu();

  const expectShort = async (folder: string, model: GoldenModel) => {
    const cases = model.cases.filter(({ ids }) => ids.length <= SHORT_TOKENS);
    const logits = await lastLogits(backends.create, { ...model, cases }, SHORT_TOKENS);
    expect(logits.length).toBeGreaterThan(0);
    for (const [index, known] of cases.entries()) {
      expect(likeness(known, logits[index] as Float32Array)).toBeGreaterThanOrEqual(leastOnGpu(folder));
    }
  };

  const expectAll = async (folder: string, model: GoldenModel) => {
    const outcomes = await runGolden(backends.create, model);
    expect(outcomes).toHaveLength(model.cases.length);
    const positions = { computed: [] as number[], known: [] as number[] };
    for (const [index, { lastLogits, midTop1, greedy }] of outcomes.entries()) {
      const known = model.cases[index] as GoldenCase;
      expect(likeness(known, lastLogits)).toBeGreaterThanOrEqual(leastOnGpu(folder));
      if (isFloats(folder)) expect(greedy).toEqual(known.greedy);
      positions.computed.push(...midTop1);
      positions.known.push(...known.midTop1);
    }
    const least = isFloats(folder) ? LEAST_AGREEING_FLOATS : LEAST_AGREEING;
    expect(agreeing(positions.computed, positions.known)).toBeGreaterThanOrEqual(least);
  };

  const expectLikeness = thorough ? expectAll : expectShort;

  // Without all of them: biases of experts, sinks and a window, which tests beside the reference backend do not have together.
  it.skipIf(!hasTestdata).each(thorough ? mlxFolders : ['gpt_oss-4bit'])(
    'has the logits of mlx-lm: %s',
    (folder) => expectLikeness(folder, mlxModel(folder)),
  );

  it.skipIf(!hasTestdata).each(thorough ? mlxAdapters : ['llama-4bit-dora'])(
    'has the logits of mlx-lm with an adapter: %s',
    (name) => expectLikeness(name, mlxAdapter(name)),
  );
});
