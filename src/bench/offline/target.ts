// What is measured next to a model: the CPU or a GPU, how fast it reads its memory, and how large things are on it.

import { cpus, freemem, totalmem } from 'node:os';
import type { Backend, BackendOptions, KvType } from '../../compute/backend.ts';
import { createCpuBackend } from '../../compute/cpu/backend.ts';
import type { Addon } from '../../compute/cpu/binding.ts';
import { createCudaBackend } from '../../compute/cuda/backend.ts';
import { findCudaGpu } from '../../compute/cuda/gpu.ts';
import { kernelsFor } from '../../compute/cuda/kernel-images.ts';
import { type BackendSizes, sizesOf } from '../../compute/memory.ts';
import { createWebGpuBackend } from '../../compute/webgpu/backend.ts';
import { gpuInfo } from '../../compute/webgpu/gpu.ts';
import { gpuReadBandwidth } from '../../compute/webgpu/read-bandwidth.ts';
import type { ModelSpec } from '../../model/spec.ts';
import type { WeightSource } from '../../weights/weight-source.ts';

export interface Machine {
  readonly cpu: string;
  readonly cores: number;
  readonly memoryBytes: number;
  /** The instruction set whose kernels compute, or the GPU's language. */
  readonly kernels: string;
  readonly gpu?: string;
  readonly threads: number;
  readonly node: string;
}

/** Larger than common caches. */
const PROBE_MEGABYTES = 1024;

function describeMachine(kernels: string, threads: number): Machine {
  const processors = cpus();
  return {
    cpu: processors[0]?.model.trim() ?? 'unknown',
    cores: processors.length,
    memoryBytes: totalmem(),
    kernels,
    threads,
    node: process.versions.node,
  };
}

export function machineText({ cpu, cores, threads, kernels, gpu }: Machine): string {
  return gpu === undefined
    ? `${cpu}, ${threads} of ${cores} threads, ${kernels} kernels`
    : `${gpu} in ${cpu}`;
}

function readBandwidth(addon: Addon, threads: number): number {
  return addon.readBandwidth(threads, PROBE_MEGABYTES);
}

/**
 * Without the memory that measuring bandwidth needs. Only Linux reports what it could free; elsewhere total memory
 * stands for it.
 */
function availableBytes(): number {
  const limit = process.constrainedMemory();
  const bytes = process.platform === 'linux' ? freemem() : totalmem();
  return (limit > 0 ? Math.min(limit, bytes) : bytes) - PROBE_MEGABYTES * 2 ** 20;
}

export interface BenchTarget {
  readonly sizes: BackendSizes;
  readonly machine: Machine;
  availableBytes(): number;
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

/** Throws BackendUnavailableError where there is no such GPU. */
export function cudaTarget(addon: Addon, threads: number, name: string | undefined): BenchTarget {
  const gpu = findCudaGpu(addon, name);
  const { content } = kernelsFor(gpu.capability);
  const chosen = { threads, ...(name === undefined ? {} : { gpu: name }) };
  return {
    sizes: sizesOf('cuda'),
    machine: { ...describeMachine('CUDA', threads), gpu: gpu.name },
    availableBytes: () => addon.gpuFreeBytes(gpu.number),
    // A copy reads and writes.
    readBandwidth: async () =>
      (2 * PROBE_MEGABYTES * 2 ** 20) / addon.timeGpuCopy(gpu.number, content, PROBE_MEGABYTES),
    create: (spec, weights, options) => createCudaBackend(addon, spec, weights, { ...options, ...chosen }),
  };
}

/** WebGPU does not report free memory: what does not fit fails when it is loaded. */
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
