// What is measured beside a model: the processor or a GPU, how fast it reads its memory, and how large things are on it.

import type { Backend, BackendOptions, KvType } from '../../compute/backend.ts';
import { createCpuBackend } from '../../compute/cpu/backend.ts';
import type { Addon } from '../../compute/cpu/binding.ts';
import { type BackendSizes, sizesOf } from '../../compute/memory.ts';
import { createWebGpuBackend } from '../../compute/webgpu/backend.ts';
import { gpuInfo } from '../../compute/webgpu/gpu.ts';
import { gpuReadBandwidth } from '../../compute/webgpu/read-bandwidth.ts';
import type { ModelSpec } from '../../model/spec.ts';
import type { WeightSource } from '../../weights/weight-source.ts';
import { availableBytes, describeMachine, type Machine, readBandwidth } from './machine.ts';

export interface BenchTarget {
  readonly sizes: BackendSizes;
  readonly machine: Machine;
  /** Bytes that may be taken now. */
  availableBytes(): number;
  /** Bytes per second. */
  readBandwidth(): Promise<number>;
  create(
    spec: ModelSpec,
    weights: WeightSource,
    options: BackendOptions & { readonly kvType: KvType },
  ): Promise<Backend>;
}

export function cpuTarget(addon: Addon, threads: number): BenchTarget {
  return {
    sizes: sizesOf('cpu'),
    machine: describeMachine(addon.kernels().at(-1) ?? 'none', threads),
    availableBytes,
    readBandwidth: async () => readBandwidth(addon, threads),
    create: (spec, weights, options) => createCpuBackend(addon, spec, weights, { ...options, threads }),
  };
}

/** A GPU does not tell how much memory it has free: what does not fit is an error when it is loaded. */
export async function gpuTarget(name: string | undefined): Promise<BenchTarget> {
  const info = await gpuInfo(name);
  const chosen = name === undefined ? {} : { gpu: name };
  return {
    sizes: sizesOf('webgpu'),
    machine: { ...describeMachine('WGSL', 1), gpu: info.name },
    availableBytes: () => (info.software ? availableBytes() : Number.MAX_SAFE_INTEGER),
    readBandwidth: () => gpuReadBandwidth(name),
    create: (spec, weights, options) => createWebGpuBackend(spec, weights, { ...options, ...chosen }),
  };
}
