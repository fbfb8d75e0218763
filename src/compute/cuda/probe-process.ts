// Run as a process of its own: reports the GPU that would serve and how much of its memory is free.

import { messageOf } from '../../runtime/error-message.ts';
import { loadAddon } from '../cpu/binding.ts';
import { findCudaGpu } from './gpu.ts';
import type { CudaProbe } from './probe.ts';

function probe(wanted: string | undefined): CudaProbe {
  const load = loadAddon();
  if (!load.available) return { found: false, reason: load.reason };
  try {
    const gpu = findCudaGpu(load.addon, wanted);
    return { found: true, gpu, freeBytes: load.addon.gpuFreeBytes(gpu.number) };
  } catch (error) {
    return { found: false, reason: messageOf(error) };
  }
}

process.send?.(probe(process.argv[2]), () => process.exit(0));
