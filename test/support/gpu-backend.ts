// One GPU for all test files of a process, which so share its compiled kernels: backends and single kernels on it.

import { beforeAll } from 'vitest';
import type { Backend } from '../../src/compute/backend.ts';
import { createWebGpuBackend, type WebGpuOptions } from '../../src/compute/webgpu/backend.ts';
import { type Gpu, openGpu } from '../../src/compute/webgpu/gpu.ts';
import { GpuMemory } from '../../src/compute/webgpu/memory.ts';
import { Programs } from '../../src/compute/webgpu/programs.ts';
import type { ModelSpec } from '../../src/model/spec.ts';
import type { WeightSource } from '../../src/weights/weight-source.ts';

let opening: Promise<Gpu> | undefined;

export interface KernelRun {
  readonly text: string;
  readonly buffers: readonly GPUBuffer[];
  readonly grid: readonly [columns: number, rows?: number];
}

export interface SharedGpu {
  gpu(): Gpu;
  create(spec: ModelSpec, weights: WeightSource, options: WebGpuOptions): Promise<Backend>;
  /** Runs kernels in one pass, and reads a buffer that they have written. */
  run(output: GPUBuffer, ...kernels: readonly KernelRun[]): Promise<ArrayBuffer>;
  /** Memory that is released in the end. */
  withMemory<Result>(use: (memory: GpuMemory) => Promise<Result>): Promise<Result>;
}

/** To be called where tests are described; open while they run, and for those of the next file. */
export function sharedGpu(): SharedGpu {
  let gpu: Gpu;
  beforeAll(async () => {
    opening ??= openGpu();
    gpu = await opening;
  });
  const withMemory: SharedGpu['withMemory'] = async (use) => {
    const memory = new GpuMemory(gpu.device);
    try {
      return await use(memory);
    } finally {
      memory.release();
    }
  };
  return {
    gpu: () => gpu,
    create: (spec, weights, options) => createWebGpuBackend(spec, weights, { ...options, gpu }),
    run: (output, ...kernels) => withMemory((memory) => runKernels(gpu, memory, output, kernels)),
    withMemory,
  };
}

async function runKernels(
  { device }: Gpu,
  memory: GpuMemory,
  output: GPUBuffer,
  kernels: readonly KernelRun[],
): Promise<ArrayBuffer> {
  const programs = Programs.of(device);
  const readback = await memory.readback('read', output.size);
  const encoder = device.createCommandEncoder();
  const pass = encoder.beginComputePass();
  for (const { text, buffers, grid } of kernels) {
    pass.setPipeline(programs.pipeline('kernel', text));
    pass.setBindGroup(0, programs.bind(text, buffers));
    pass.dispatchWorkgroups(...grid);
  }
  pass.end();
  encoder.copyBufferToBuffer(output, 0, readback, 0, output.size);
  device.queue.submit([encoder.finish()]);
  await readback.mapAsync(1);
  return readback.getMappedRange().slice(0);
}

/** The same GPU, whose kernels bind at most `bindingBytes` at once. */
export function withBinding(gpu: Gpu, bindingBytes: number): Gpu {
  return { ...gpu, info: { ...gpu.info, limits: { ...gpu.info.limits, bindingBytes } } };
}
