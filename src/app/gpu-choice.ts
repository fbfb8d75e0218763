// Whether a GPU serves: asked for, or found. Where it cannot, one line says why, and the processor serves.

import { hasGpuPackage } from '../compute/webgpu/gpu.ts';
import { type ProbeResult, probeGpu } from '../compute/webgpu/probe.ts';
import type { Config } from '../config.ts';
import { gpuMemoryLimit } from '../runtime/limits.ts';

export interface GpuChoice {
  /** The backend that is left after looking: webgpu only where a GPU answered. */
  readonly backend: Config['backend'];
  /** What the GPU gives; undefined where it shares the machine's memory, or none serves. */
  readonly memoryBytes?: number | undefined;
  /** What the system lets a GPU have of the machine's memory, where it says so. */
  readonly unifiedBytes?: number | undefined;
  /** What it gives to a kernel at once. */
  readonly bindingBytes?: number | undefined;
  /** What a person should know. */
  readonly notice?: string;
}

/** How to look; tests look elsewhere. */
export interface GpuSearch {
  /** Whether looking is worth the while where nobody asked for it. */
  isLikely(): Promise<boolean>;
  probe(name?: string): Promise<ProbeResult>;
  /** Of the machine's memory; undefined where the system does not say. */
  unifiedLimit(): number | undefined;
}

const realSearch: GpuSearch = {
  async isLikely() {
    const script = new URL('../../scripts/gpu-package.js', import.meta.url).href;
    const { isGpuLikely } = (await import(script)) as { isGpuLikely(): boolean };
    return isGpuLikely() && hasGpuPackage();
  },
  probe: probeGpu,
  unifiedLimit: gpuMemoryLimit,
};

/** Where nobody says, a hardware GPU is taken; a software one only where it was asked for. */
export async function chooseGpu(
  { backend, gpu }: Pick<Config, 'backend' | 'gpu'>,
  search: GpuSearch = realSearch,
): Promise<GpuChoice> {
  if (backend === 'cpu' || backend === 'reference') return { backend };
  const isAskedFor = backend === 'webgpu' || gpu !== undefined;
  if (!isAskedFor && !(await search.isLikely())) return { backend: undefined };
  const result = await search.probe(gpu);
  if (!result.found) {
    const notice = `no GPU serves, the processor does: ${result.reason}`;
    return { backend: undefined, ...(isAskedFor ? { notice } : {}) };
  }
  const { info, memoryBytes } = result;
  if (info.software && !isAskedFor) return { backend: undefined };
  const { bindingBytes } = info.limits;
  const unifiedBytes = info.unified ? search.unifiedLimit() : undefined;
  const notice = `serving on the GPU ${info.name}`;
  return { backend: 'webgpu', memoryBytes, unifiedBytes, bindingBytes, notice };
}
