// Which backend computes: the one that is asked for, else the addon where it is built, else the TypeScript one. A fallback
// is never silent. Those that few ask for are loaded when they are: a hundred files.

import type { BackendName, CreateBackend } from './backend.ts';
import { BackendUnavailableError } from './backend-unavailable.ts';
import { type CpuOptions, createCpuBackend } from './cpu/backend.ts';
import { loadAddon, missingKernels } from './cpu/binding.ts';

export interface BackendChoice {
  readonly name: BackendName;
  readonly create: CreateBackend;
  /** What computes, where the name does not say enough. */
  readonly device?: string;
  /** Why the faster backend, or faster kernels, do not serve, where they were not asked to stay away. */
  readonly notice?: string;
}

interface ChoiceOptions extends Pick<CpuOptions, 'threads' | 'kvType' | 'isa'> {
  /** One of several GPUs, by name. WebGPU's own types stay out of here: programs see this file's. */
  readonly gpu?: string;
}

const createReferenceBackend: CreateBackend = async (...wanted) =>
  (await import('./reference/backend.ts')).createReferenceBackend(...wanted);

/** Where nobody says, takes the processor's fastest; what is asked for and cannot be met is an error. */
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
