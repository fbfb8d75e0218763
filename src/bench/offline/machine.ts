// The machine that is measured: its processor, its memory, and how fast it reads that.

import { cpus, freemem, totalmem } from 'node:os';
import type { Addon } from '../../compute/cpu/binding.ts';

export interface Machine {
  readonly cpu: string;
  readonly cores: number;
  readonly memoryBytes: number;
  /** The instruction set whose kernels compute, or the GPU's language. */
  readonly kernels: string;
  /** Where a GPU computes. */
  readonly gpu?: string;
  readonly threads: number;
  readonly node: string;
}

/** Larger than any cache that is common. */
const PROBE_MEGABYTES = 1024;

export function describeMachine(kernels: string, threads: number): Machine {
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

/** For people, on one line. */
export function machineText({ cpu, cores, threads, kernels, gpu }: Machine): string {
  return gpu === undefined
    ? `${cpu}, ${threads} of ${cores} threads, ${kernels} kernels`
    : `${gpu} in ${cpu}`;
}

/** Bytes per second that all threads read together. */
export function readBandwidth(addon: Addon, threads: number): number {
  return addon.readBandwidth(threads, PROBE_MEGABYTES);
}

/**
 * What may be taken now, the room for measuring bandwidth kept back. Only Linux tells what it could free; elsewhere
 * the whole memory has to stand for it.
 */
export function availableBytes(): number {
  const limit = process.constrainedMemory();
  const bytes = process.platform === 'linux' ? freemem() : totalmem();
  return (limit > 0 ? Math.min(limit, bytes) : bytes) - PROBE_MEGABYTES * 2 ** 20;
}
