// What a benchmark without a server measures: what `serve` would compute with here.

import { type BenchTarget, cpuTarget, gpuTarget } from '../bench/offline/target.ts';
import { BackendUnavailableError } from '../compute/backend-unavailable.ts';
import { loadAddon } from '../compute/cpu/binding.ts';
import { machineLimits } from '../runtime/limits.ts';
import { chooseGpu, type GpuSearch } from './gpu-choice.ts';

export interface TargetOptions {
  /** As `serve` chooses where absent. */
  readonly backend?: 'cpu' | 'webgpu' | undefined;
  readonly gpu?: string | undefined;
  readonly threads?: number | undefined;
}

/** Unlike a server, a benchmark never falls back to another backend. */
export async function benchBackend(
  { backend, gpu }: TargetOptions,
  search?: GpuSearch,
): Promise<'cpu' | 'webgpu'> {
  if (backend !== undefined) return backend;
  if (gpu !== undefined) return 'webgpu';
  const choice = await chooseGpu({ backend, gpu }, search);
  return choice.backend === 'webgpu' ? 'webgpu' : 'cpu';
}

/** Throws BackendUnavailableError where the addon is missing, GpuUnavailableError where the GPU is. */
export async function chooseBenchTarget(options: TargetOptions): Promise<BenchTarget> {
  if ((await benchBackend(options)) === 'webgpu') return gpuTarget(options.gpu);
  const load = loadAddon();
  if (load.available) return cpuTarget(load.addon, options.threads ?? machineLimits().cores);
  throw new BackendUnavailableError(`the cpu backend is not available: ${load.reason}`);
}
