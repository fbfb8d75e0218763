// Chooses the backend: the one that is asked for, else the addon where it is built, else the TypeScript one. A fallback is never
// silent. The GPU's hundred files are loaded on demand.

import type { BackendName, CreateBackend } from './backend.ts';
import { BackendUnavailableError } from './backend-unavailable.ts';
import { type CpuOptions, createCpuBackend } from './cpu/backend.ts';
import { type AddonLoad, loadAddon, missingKernels } from './cpu/binding.ts';

export interface BackendChoice {
  readonly name: BackendName;
  readonly create: CreateBackend;
  /** What computes, where the name does not say enough. */
  readonly device?: string;
  /** Why a faster backend or faster kernels are not used. */
  readonly notice?: string;
}

interface ChoiceOptions extends Pick<CpuOptions, 'threads' | 'kvType' | 'isa'> {
  /** One of several GPUs, by name. WebGPU's own types stay out of here: programs see this file's. */
  readonly gpu?: string;
}

const createReferenceBackend: CreateBackend = async (...wanted) =>
  (await import('./reference/backend.ts')).createReferenceBackend(...wanted);

/** Defaults to the fastest on the processor; a backend that is asked for and cannot serve is an error. */
export function chooseBackend(
  wanted: BackendName | undefined,
  { gpu, ...cpuOptions }: ChoiceOptions = {},
): BackendChoice {
  if (wanted === 'reference') return { name: 'reference', create: createReferenceBackend };
  if (wanted === 'webgpu') {
    const { kvType } = cpuOptions;
    const chosen = { ...(kvType === undefined ? {} : { kvType }), ...(gpu === undefined ? {} : { gpu }) };
    const create: CreateBackend = async (spec, weights, options) => {
      const { createWebGpuBackend } = await import('./webgpu/backend.ts');
      return createWebGpuBackend(spec, weights, { ...options, ...chosen });
    };
    return { name: 'webgpu', create };
  }
  const load = loadAddon();
  if (wanted === 'cuda') return chooseCuda(load, { ...cpuOptions, ...(gpu === undefined ? {} : { gpu }) });
  if (load.available) {
    const create: CreateBackend = (spec, weights, options) =>
      createCpuBackend(load.addon, spec, weights, { ...options, ...cpuOptions });
    const notice = missingKernels(load.addon);
    return {
      name: 'cpu',
      create,
      ...(load.origin === 'prebuilt' ? { device: 'prebuilt addon' } : {}),
      ...(notice === undefined ? {} : { notice }),
    };
  }
  if (wanted === 'cpu') throw new BackendUnavailableError(`the cpu backend is not available: ${load.reason}`);
  return {
    name: 'reference',
    create: createReferenceBackend,
    notice: `serving with the slower TypeScript backend: ${load.reason}`,
  };
}

function chooseCuda(load: AddonLoad, { threads, kvType, gpu }: ChoiceOptions): BackendChoice {
  if (!load.available) throw new BackendUnavailableError(`the cuda backend is not available: ${load.reason}`);
  const chosen = {
    ...(threads === undefined ? {} : { threads }),
    ...(kvType === undefined ? {} : { kvType }),
    ...(gpu === undefined ? {} : { gpu }),
  };
  const create: CreateBackend = async (spec, weights, options) => {
    const { createCudaBackend } = await import('./cuda/backend.ts');
    return createCudaBackend(load.addon, spec, weights, { ...options, ...chosen });
  };
  return { name: 'cuda', create };
}
