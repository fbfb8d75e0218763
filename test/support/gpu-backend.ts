// One GPU for all tests of a file, which so share its compiled kernels, and backends on it.

import { afterAll, beforeAll } from 'vitest';
import type { Backend } from '../../src/compute/backend.ts';
import { createWebGpuBackend, type WebGpuOptions } from '../../src/compute/webgpu/backend.ts';
import { type Gpu, openGpu } from '../../src/compute/webgpu/gpu.ts';
import type { ModelSpec } from '../../src/model/spec.ts';
import type { WeightSource } from '../../src/weights/weight-source.ts';

export interface GpuBackends {
  /** Open while tests run. */
  gpu(): Gpu;
  create(spec: ModelSpec, weights: WeightSource, options: WebGpuOptions): Promise<Backend>;
}

/** To be called where tests are described. */
export function gpuBackends(): GpuBackends {
  let gpu: Gpu;
  beforeAll(async () => {
    gpu = await openGpu();
  });
  afterAll(() => gpu.close());
  return {
    gpu: () => gpu,
    create: (spec, weights, options) => createWebGpuBackend(spec, weights, { ...options, gpu }),
  };
}

/** The same GPU, whose kernels bind at most `bindingBytes` at once. */
export function withBinding(gpu: Gpu, bindingBytes: number): Gpu {
  return { ...gpu, info: { ...gpu.info, limits: { ...gpu.info.limits, bindingBytes } } };
}
