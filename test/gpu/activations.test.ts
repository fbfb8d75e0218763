// What a feed-forward does to each value, against the reference: small differences that no logits would tell.

import { afterAll, beforeAll, expect, it } from 'vitest';
import { activate } from '../../src/compute/reference/activation.ts';
import { type Gpu, openGpu } from '../../src/compute/webgpu/gpu.ts';
import { makeInputKernel } from '../../src/compute/webgpu/kernels/make-input.ts';
import { GpuMemory } from '../../src/compute/webgpu/memory.ts';
import { Programs } from '../../src/compute/webgpu/programs.ts';
import type { Activation } from '../../src/model/spec.ts';
import { describeOnGpu } from '../support/on-gpu.ts';

const activations: readonly Activation[] = ['silu', 'gelu-tanh', 'gelu', { limit: 7, slope: 1.702 }];
const SIZE = 1000;

let gpu: Gpu;

/** One row: gates, then what they let through. */
const row = Float32Array.from({ length: 2 * SIZE }, (_, i) => (((i * 37) % SIZE) / SIZE - 0.5) * 24);
const [gate, up] = [row.slice(0, SIZE), row.slice(SIZE)];

async function activateOnGpu(activation: Activation, upOffset: number | undefined): Promise<Float32Array> {
  const memory = new GpuMemory(gpu.device);
  const programs = Programs.of(gpu.device);
  try {
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
    const readback = await memory.readback('read', 4 * SIZE);
    const encoder = gpu.device.createCommandEncoder();
    const pass = encoder.beginComputePass();
    pass.setPipeline(programs.pipeline('activate', text));
    pass.setBindGroup(0, programs.bind(text, [step, source, values]));
    pass.dispatchWorkgroups(1, 1);
    pass.end();
    encoder.copyBufferToBuffer(values, 0, readback, 0, 4 * SIZE);
    gpu.device.queue.submit([encoder.finish()]);
    await readback.mapAsync(1);
    return new Float32Array(readback.getMappedRange().slice(0));
  } finally {
    memory.release();
  }
}

const largestError = (actual: Float32Array, expected: Float32Array): number =>
  actual.reduce((most, value, i) => {
    const wanted = expected[i] as number;
    return Math.max(most, Math.abs(value - wanted) / Math.max(1, Math.abs(wanted)));
  }, 0);

describeOnGpu('an activation on a GPU', () => {
  beforeAll(async () => {
    gpu = await openGpu();
  });
  afterAll(() => gpu.close());

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
