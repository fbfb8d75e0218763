// Folders that mlx-lm converted, against what mlx-lm itself computes with them. Some differ from the hub's in ways that only
// answers show: norms with 1 added, gates and ups that no longer alternate, matrices that are turned.

import { describe, expect, it } from 'vitest';
import { createReferenceBackend } from '../../src/compute/reference/backend.ts';
import { mlxGoldens } from '../contract/golden-contract.ts';
import { type GoldenModel, likeness, mlxAdapter, mlxModel, runGolden } from '../support/golden.ts';
import { mlxAdapters as adapters, agreeing, mlxFolders as folders } from '../support/mlx-folders.ts';
import { createOnCpu, hasAddon } from '../support/native.ts';
import { hasTestdata } from '../support/testdata.ts';
import { some, thorough } from '../support/thorough.ts';

/** In float32 every answer is that of mlx-lm, but where two tokens are next to equal. */
const LEAST_IN_FLOATS = 0.99999;
const LEAST_AGREEING = 0.99;
/** The reference computes short texts in less than a second. */
const SHORT_TOKENS = 40;

/** Steps of one token: the next would show no more, and the midst of the prompt shows as much. */
const GREEDY_TOKENS = thorough ? Number.POSITIVE_INFINITY : 3;

function shortCases(model: GoldenModel): GoldenModel {
  const cases = model.cases.filter(({ ids }) => ids.length <= SHORT_TOKENS);
  return { ...model, cases: cases.map((one) => ({ ...one, greedy: one.greedy.slice(0, GREEDY_TOKENS) })) };
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

describe.skipIf(!hasTestdata)(
  'folders converted by mlx-lm (skipped where the shared ones are absent)',
  () => {
    // Two seconds each; the cpu backend has all of them, in a tenth of that.
    it.each(some(folders))('have the logits and greedy ids of mlx-lm in float32: %s', (folder) =>
      expectExact(shortCases(mlxModel(folder))),
    );
  },
);

describe.skipIf(!hasTestdata)('adapters trained by mlx-lm (skipped where the shared ones are absent)', () => {
  it.each(adapters)('have the logits and greedy ids of mlx-lm in float32: %s', (name) =>
    expectExact(shortCases(mlxAdapter(name))),
  );
});

describe.skipIf(!hasTestdata || !hasAddon)(
  'the cpu backend on what mlx-lm makes (skipped where the shared ones or the addon are absent)',
  () => mlxGoldens(createOnCpu),
);
