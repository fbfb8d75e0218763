// What steps leave behind for the garbage collector: whatever is made for every one is collected for all at once.

import { expect, it } from 'vitest';
import { buildBatch } from '../../src/compute/batch.ts';
import { createWebGpuBackend } from '../../src/compute/webgpu/backend.ts';
import { openGpu } from '../../src/compute/webgpu/gpu.ts';
import { describeOnFastestGpu } from '../support/on-gpu.ts';
import { tinyModel } from '../support/tiny-model.ts';

/** Counts how often each of an object's methods that make something is called. */
function countMaking(target: object): Map<string, number> {
  const made = new Map<string, number>();
  const names = Object.getOwnPropertyNames(Object.getPrototypeOf(target));
  for (const name of names.filter((one) => one.startsWith('create'))) {
    const make = Reflect.get(target, name) as (...args: unknown[]) => unknown;
    const counted = (...args: unknown[]) => {
      made.set(name, (made.get(name) ?? 0) + 1);
      return make.apply(target, args);
    };
    Object.defineProperty(target, name, { value: counted, configurable: true });
  }
  return made;
}

describeOnFastestGpu('steps of one shape', () => {
  it('make command encoders alone: no buffer, bind group or pipeline', async () => {
    const { spec, weights } = tinyModel({ layerCount: 1, headSize: 32, ffnSize: 64 });
    const gpu = await openGpu();
    const backend = await createWebGpuBackend(spec, weights, { blockCount: 1, gpu });
    const step = (position: number) =>
      backend.step(buildBatch([{ tokens: [position], start: position, blocks: [0], wantLogits: 'last' }]));
    for (let position = 0; position < 3; position++) await step(position);

    const made = countMaking(gpu.device);
    for (let position = 3; position < 23; position++) await step(position);
    expect([...made.keys()]).toEqual(['createCommandEncoder']);
    expect(made.get('createCommandEncoder')).toBeLessThanOrEqual(20);
    backend.close();
    gpu.close();
  });
});
