// What a benchmark without a server measures: what `serve` would compute with here.

import { type BenchTarget, cpuTarget, cudaTarget, gpuTarget } from '../bench/offline/target.ts';
import { BackendUnavailableError } from '../compute/backend-unavailable.ts';
import { loadAddon } from '../compute/cpu/binding.ts';
import { machineLimits } from '../runtime/limits.ts';
import { chooseGpu, type GpuSearch } from './gpu-choice.ts';

export interface TargetOptions {
  /** As `serve` chooses where absent. */
  readonly backend?: 'cpu' | 'cuda' | 'webgpu' | undefined;
  readonly gpu?: string | undefined;
  readonly threads?: number | undefined;
}

/** Unlike a server, a benchmark never falls back to another backend. */
export async function benchBackend(
  { backend, gpu }: TargetOptions,
  search?: GpuSearch,
): Promise<'cpu' | 'cuda' | 'webgpu'> {
  if (backend !== undefined) return backend;
  const choice = await chooseGpu({ backend, gpu }, search);
  if (choice.backend === 'cuda' || choice.backend === 'webgpu') return choice.backend;
  // The reason why it cannot be used comes when it is opened.
  return gpu === undefined ? 'cpu' : 'webgpu';
}

/** Throws BackendUnavailableError where the addon is missing, GpuUnavailableError where the GPU is. */
export async function chooseBenchTarget(options: TargetOptions): Promise<BenchTarget> {
  const backend = await benchBackend(options);
  if (backend === 'webgpu') return gpuTarget(options.gpu);
  const load = loadAddon();
  if (!load.available)
    throw new BackendUnavailableError(`the ${backend} backend is not available: ${load.reason}`);
  const threads = options.threads ?? machineLimits().cores;
  return backend === 'cuda' ? cudaTarget(load.addon, threads, options.gpu) : cpuTarget(load.addon, threads);
}
