// Activations of the addon against those of the reference backend, over the whole range in which they bend.

import { describe, expect, it } from 'vitest';
import { addon, hasAddon } from '../../../test/support/native.ts';
import { tinyModel } from '../../../test/support/tiny-model.ts';
import type { Activation, ModelSpec } from '../../model/spec.ts';
import type { Backend } from '../backend.ts';
import { buildBatch } from '../batch.ts';
import { createReferenceBackend } from '../reference/backend.ts';
import { createCpuBackend } from './backend.ts';

async function statesOf(backend: Backend, vocabSize: number): Promise<Float32Array> {
  const tokens = Array.from({ length: vocabSize }, (_, token) => token);
  const { states } = await backend.step(
    buildBatch([{ tokens, start: 0, blocks: [0, 1, 2, 3, 4], wantLogits: 'none', wantStates: 'all' }]),
  );
  backend.close();
  return states.slice();
}

const clamped = { limit: 3, slope: 1.702 };
const cases: readonly (readonly [name: string, activation: Activation, ungated: boolean])[] = [
  ['silu', 'silu', false],
  ['gelu-tanh', 'gelu-tanh', false],
  ['gelu', 'gelu', false],
  ['gelu without a gate', 'gelu', true],
  ['a clamped one', clamped, false],
];

describe.skipIf(!hasAddon)('activations (skipped where the addon is not built)', () => {
  it.each(cases)('give the values of %s', async (_, activation, ungated) => {
    const model = tinyModel({ layerCount: 1, activation, ungated, embeddingScale: 12, preNorms: false });
    // Without attention nothing is rounded to 16 bits.
    const layers = model.spec.layers.map(({ branches }) => ({ branches: branches.slice(1) }));
    const spec: ModelSpec = { ...model.spec, layers };
    const options = { blockCount: 5 };
    const actual = await statesOf(
      await createCpuBackend(addon(), spec, model.weights, options),
      spec.vocabSize,
    );
    const expected = await statesOf(
      await createReferenceBackend(spec, model.weights, options),
      spec.vocabSize,
    );
    expect(actual).toHaveLength(spec.vocabSize * spec.hiddenSize);
    const difference = expected.map((value, index) => Math.abs(value - (actual[index] as number)));
    expect(Math.max(...difference)).toBeLessThan(3e-6);
  });
});
