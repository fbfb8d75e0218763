// Whether a GPU computes: asked for, or found. NVIDIA's are asked for through CUDA first, all others through WebGPU. Where none
// can, one line says why and the CPU computes.

import type { BackendName } from '../compute/backend.ts';
import { type CudaProbe, isNvidiaLikely, probeCuda } from '../compute/cuda/probe.ts';
import { hasGpuPackage } from '../compute/webgpu/gpu.ts';
import { type ProbeResult, probeGpu } from '../compute/webgpu/probe.ts';
import type { Config } from '../config.ts';
import { gpuMemoryLimit } from '../runtime/limits.ts';

export interface GpuChoice {
  /** cuda or webgpu only where a GPU was found. */
  readonly backend: Config['backend'];
  /** Undefined where it shares the machine's memory, or there is none. */
  readonly memoryBytes?: number | undefined;
  /** The system's limit for unified memory, where it has one. */
  readonly unifiedBytes?: number | undefined;
  readonly bindingBytes?: number | undefined;
  readonly notice?: string;
}

/** Replaced in tests. */
export interface GpuSearch {
  /** Whether looking for a GPU is worthwhile. */
  isLikely(): Promise<boolean>;
  probe(name?: string): Promise<ProbeResult>;
  /** Undefined where the system does not say. */
  unifiedLimit(): number | undefined;
  /** The same with CUDA. */
  isNvidiaLikely(): boolean;
  probeCuda(name?: string): Promise<CudaProbe>;
}

const realSearch: GpuSearch = {
  async isLikely() {
    const script = new URL('../../scripts/gpu-package.js', import.meta.url).href;
    const { isGpuLikely } = (await import(script)) as { isGpuLikely(): boolean };
    return isGpuLikely() && hasGpuPackage();
  },
  probe: probeGpu,
  unifiedLimit: gpuMemoryLimit,
  isNvidiaLikely,
  probeCuda,
};

export function isGpuBackend(backend: BackendName | undefined): boolean {
  return backend === 'cuda' || backend === 'webgpu';
}

const NONE_SERVES = 'no GPU serves, the processor does';

/** By default a hardware GPU is used; a software one only where it is asked for. */
export async function chooseGpu(
  { backend, gpu }: Pick<Config, 'backend' | 'gpu'>,
  search: GpuSearch = realSearch,
): Promise<GpuChoice> {
  if (backend === 'cpu' || backend === 'reference') return { backend };
  if (backend === 'webgpu' || (backend === undefined && !search.isNvidiaLikely())) {
    return chooseWebGpu(backend === 'webgpu' || gpu !== undefined, gpu, search);
  }
  const result = await search.probeCuda(gpu);
  if (result.found) {
    const notice = `serving on the GPU ${result.gpu.name} with CUDA`;
    return { backend: 'cuda', memoryBytes: result.freeBytes, notice };
  }
  if (backend === 'cuda') return { backend: undefined, notice: `${NONE_SERVES}: ${result.reason}` };
  const { notice = NONE_SERVES, ...choice } = await chooseWebGpu(gpu !== undefined, gpu, search);
  return { ...choice, notice: `${notice}; CUDA is not used: ${result.reason}` };
}

async function chooseWebGpu(
  isAskedFor: boolean,
  gpu: string | undefined,
  search: GpuSearch,
): Promise<GpuChoice> {
  if (!isAskedFor && !(await search.isLikely())) return { backend: undefined };
  const result = await search.probe(gpu);
  if (!result.found) {
    const notice = `${NONE_SERVES}: ${result.reason}`;
    return { backend: undefined, ...(isAskedFor ? { notice } : {}) };
  }
  const { info, memoryBytes } = result;
  if (info.software && !isAskedFor) return { backend: undefined };
  const { bindingBytes } = info.limits;
  const unifiedBytes = info.unified ? search.unifiedLimit() : undefined;
  const notice = `serving on the GPU ${info.name}`;
  return { backend: 'webgpu', memoryBytes, unifiedBytes, bindingBytes, notice };
}
