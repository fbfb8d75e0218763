// Folders that mlx-lm converted, against what mlx-lm itself computes with them. Some differ from the hub's in ways that only
// answers show: norms with 1 added, gates and ups that no longer alternate, matrices that are turned.

import { existsSync, readdirSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import type { CreateBackend } from '../../src/compute/backend.ts';
import { createCpuBackend } from '../../src/compute/cpu/backend.ts';
import { createReferenceBackend } from '../../src/compute/reference/backend.ts';
import { type GoldenModel, likeness, mlxAdapter, mlxModel, runGolden } from '../support/golden.ts';
import { addon, hasAddon } from '../support/native.ts';
import { hasTestdata, testdata } from '../support/testdata.ts';

const onCpu: CreateBackend = (spec, weights, options) => createCpuBackend(addon(), spec, weights, options);

const folders = hasTestdata
  ? readdirSync(testdata('mlx')).filter((name) => existsSync(testdata('mlx', name, 'golden-mlx.json')))
  : [];

const adapters = hasTestdata ? readdirSync(testdata('mlx', 'adapters')) : [];

/** In float32 every answer is that of mlx-lm, but where two tokens are next to equal. */
const LEAST_IN_FLOATS = 0.99999;
const LEAST_AGREEING = 0.99;
/** The reference computes short texts in less than a second. */
const SHORT_TOKENS = 40;

function shortCases(model: GoldenModel): GoldenModel {
  return { ...model, cases: model.cases.filter(({ ids }) => ids.length <= SHORT_TOKENS) };
}

/** Where two scores of a router are next to equal for one token, and the other expert is chosen; later tokens see that one. */
const withOtherExperts: Readonly<Record<string, number>> = {
  'gpt_oss-mxfp4-q8': 0.9,
  'qwen3_moe-nvfp4': 0.95,
};

/** Activations of 8 bits meet quantized weights; over 150 tokens a delta net adds up what they lose. */
function leastOnCpu(folder: string): number {
  if (/-(bf16|fp16)$/.test(folder)) return 0.9999;
  const flipped = withOtherExperts[folder];
  if (flipped !== undefined) return flipped;
  if (/^qwen3_5-/.test(folder)) return 0.99;
  return /^(deepseek|gemma3n|gemma4|gpt_oss|granitemoehybrid|lfm2|llama4|qwen2_moe)|nvfp4$/.test(folder)
    ? 0.995
    : 0.999;
}

function agreeing(computed: readonly number[], expected: readonly number[]): number {
  return computed.filter((token, index) => token === expected[index]).length / expected.length;
}

async function expectExact(model: GoldenModel): Promise<void> {
  const outcomes = await runGolden(createReferenceBackend, model);
  expect(outcomes).toHaveLength(2);
  for (const [index, { lastLogits, midTop1, greedy }] of outcomes.entries()) {
    const expected = model.cases[index] as (typeof model.cases)[number];
    expect(likeness(expected, lastLogits)).toBeGreaterThanOrEqual(LEAST_IN_FLOATS);
    expect(agreeing(midTop1, expected.midTop1)).toBeGreaterThanOrEqual(LEAST_AGREEING);
    expect(greedy).toEqual(expected.greedy);
  }
}

async function expectLike(model: GoldenModel, least: number): Promise<void> {
  const outcomes = await runGolden(onCpu, model);
  expect(outcomes).toHaveLength(model.cases.length);
  for (const [index, { lastLogits }] of outcomes.entries()) {
    const likely = likeness(model.cases[index] as (typeof model.cases)[number], lastLogits);
    expect(likely).toBeGreaterThanOrEqual(least);
  }
}

describe.skipIf(!hasTestdata)(
  'folders converted by mlx-lm (skipped where the shared ones are absent)',
  () => {
    it.each(folders)('have the logits and greedy ids of mlx-lm in float32: %s', (folder) =>
      expectExact(shortCases(mlxModel(folder))),
    );

    it.skipIf(!hasAddon).each(folders)('have the logits of mlx-lm on the cpu backend: %s', (folder) =>
      expectLike(mlxModel(folder), leastOnCpu(folder)),
    );
  },
);

describe.skipIf(!hasTestdata)('adapters trained by mlx-lm (skipped where the shared ones are absent)', () => {
  it.each(adapters)('have the logits and greedy ids of mlx-lm in float32: %s', (name) =>
    expectExact(shortCases(mlxAdapter(name))),
  );

  it.skipIf(!hasAddon).each(adapters)('have the logits of mlx-lm on the cpu backend: %s', (name) =>
    expectLike(mlxAdapter(name), 0.999),
  );
});
