// The addon with a GPU that the processor simulates: CUDA kernels as C++, thread by thread, slow and exact. It is built where its
// sources have changed.

import { fileURLToPath } from 'node:url';
import { beforeAll } from 'vitest';
import { buildSimulatedGpu } from '../../scripts/build-native.js';
import type { Backend } from '../../src/compute/backend.ts';
import { type Addon, loadAddon } from '../../src/compute/cpu/binding.ts';
import { type CudaOptions, createCudaBackend } from '../../src/compute/cuda/backend.ts';
import type { TinyModel } from './tiny-model.ts';

export const simulatedAddonPath = fileURLToPath(
  new URL('../../build/chairlift-simulated-gpu.node', import.meta.url),
);

interface SimulatedGpu {
  addon(): Addon;
  create(model: Pick<TinyModel, 'spec' | 'weights'>, options: CudaOptions): Promise<Backend>;
}

export function simulatedGpu(): SimulatedGpu {
  let addon: Addon | undefined;
  beforeAll(async () => {
    await buildSimulatedGpu(simulatedAddonPath);
    const load = loadAddon(simulatedAddonPath);
    if (!load.available) throw new Error(load.reason);
    addon = load.addon;
  });
  return {
    addon: () => addon as Addon,
    // It runs its own copy of the kernels, whatever it is given.
    create: ({ spec, weights }, options) =>
      createCudaBackend(addon as Addon, spec, weights, {
        kernels: new Uint8Array(1),
        threads: 1,
        ...options,
      }),
  };
}

/** The memory of simulated GPUs, until it is set again; undefined for as much as they have. */
export function limitSimulatedMemory(bytes: number | undefined): void {
  setVariable('CHAIRLIFT_SIMULATED_GPU_BYTES', bytes?.toString());
}

/** The shared memory of their blocks, until it is set again; undefined for that of large GPUs. */
export function limitSimulatedSharedMemory(bytes: number | undefined): void {
  setVariable('CHAIRLIFT_SIMULATED_GPU_SHARED_BYTES', bytes?.toString());
}

/** Whether steps of simulated GPUs fail, as those of a real one that was lost. */
export function loseSimulatedGpu(isLost: boolean): void {
  setVariable('CHAIRLIFT_SIMULATED_GPU_LOST', isLost ? '1' : undefined);
}

function setVariable(name: string, value: string | undefined): void {
  if (value === undefined) delete process.env[name];
  else process.env[name] = value;
}
