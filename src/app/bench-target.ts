// What a benchmark without a server measures: what `serve` would compute with here.

import { type BenchTarget, cpuTarget, gpuTarget } from '../bench/offline/target.ts';
import { BackendUnavailableError } from '../compute/backend-unavailable.ts';
import { loadAddon } from '../compute/cpu/binding.ts';
import { machineLimits } from '../runtime/limits.ts';
import { chooseGpu, type GpuSearch } from './gpu-choice.ts';

export interface TargetWish {
  /** As `serve` chooses where absent. */
  readonly backend?: 'cpu' | 'webgpu' | undefined;
  /** One of several GPUs. */
  readonly gpu?: string | undefined;
  readonly threads?: number | undefined;
}

/** Unlike a server, a benchmark never takes something else than what it was told to measure. */
export async function benchBackend(
  { backend, gpu }: TargetWish,
  search?: GpuSearch,
): Promise<'cpu' | 'webgpu'> {
  if (backend !== undefined) return backend;
  if (gpu !== undefined) return 'webgpu';
  const choice = await chooseGpu({ backend, gpu }, search);
  return choice.backend === 'webgpu' ? 'webgpu' : 'cpu';
}

/** Throws BackendUnavailableError where the addon is missing, GpuUnavailableError where the GPU is. */
export async function chooseBenchTarget(wish: TargetWish): Promise<BenchTarget> {
  if ((await benchBackend(wish)) === 'webgpu') return gpuTarget(wish.gpu);
  const load = loadAddon();
  if (load.available) return cpuTarget(load.addon, wish.threads ?? machineLimits().cores);
  throw new BackendUnavailableError(`the cpu backend is not available: ${load.reason}`);
}
