// What a feed-forward does to each value, against the reference: small differences that no logits would tell.

import { expect, it } from 'vitest';
import { activate } from '../../src/compute/reference/activation.ts';
import { makeInputKernel } from '../../src/compute/webgpu/kernels/linear-input.ts';
import type { Activation } from '../../src/model/spec.ts';
import { sharedGpu } from '../support/gpu-backend.ts';
import { describeOnGpu } from '../support/on-gpu.ts';

const activations: readonly Activation[] = ['silu', 'gelu-tanh', 'gelu', { limit: 7, slope: 1.702 }];
const SIZE = 1000;

/** One row: gates, then what they let through. */
const row = Float32Array.from({ length: 2 * SIZE }, (_, i) => (((i * 37) % SIZE) / SIZE - 0.5) * 24);
const [gate, up] = [row.slice(0, SIZE), row.slice(SIZE)];

const largestError = (actual: Float32Array, expected: Float32Array): number =>
  actual.reduce((most, value, i) => {
    const wanted = expected[i] as number;
    return Math.max(most, Math.abs(value - wanted) / Math.max(1, Math.abs(wanted)));
  }, 0);

describeOnGpu('an activation on a GPU', () => {
  const { run, withMemory } = sharedGpu();
  const activateOnGpu = (activation: Activation, upOffset: number | undefined): Promise<Float32Array> =>
    withMemory(async (memory) => {
      const text = makeInputKernel({
        making: { kind: 'activated', activation, upOffset },
        size: SIZE,
        stride: 2 * SIZE,
        rows: 'all',
        codes: false,
        values: true,
      });
      const step = await memory.filled('step', Uint32Array.of(1, 0, 0, 0));
      const source = await memory.filled('rows', row);
      const values = await memory.storage('values', 4 * SIZE);
      return new Float32Array(await run(values, { text, buffers: [step, source, values], grid: [1] }));
    });

  it.each(activations)('is the reference’s to two millionths, with a gate: %j', async (activation) => {
    const actual = await activateOnGpu(activation, SIZE);
    expect(largestError(actual, activate(activation, gate, up))).toBeLessThan(2e-6);
  });

  it.each(activations.filter((one) => typeof one === 'string'))(
    'is the reference’s to two millionths, without a gate: %s',
    async (activation) => {
      const actual = await activateOnGpu(activation, undefined);
      expect(largestError(actual, activate(activation, undefined, gate))).toBeLessThan(2e-6);
    },
  );
});
