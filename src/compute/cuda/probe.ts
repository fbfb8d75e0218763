// What GPU NVIDIA's driver finds, asked in a process of its own.

import { existsSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { askProcess, type NotFound } from '../ask-process.ts';
import type { CudaGpu } from './gpu.ts';

export type CudaProbe =
  /** Memory that no other program has. */
  { readonly found: true; readonly gpu: CudaGpu; readonly freeBytes: number } | NotFound;

const entry = fileURLToPath(new URL('../../../dist/compute/cuda/probe-process.js', import.meta.url));

// On Linux, in its containers, in WSL and on Windows.
const DRIVER_PATHS = [
  '/proc/driver/nvidia/version',
  '/dev/nvidiactl',
  '/usr/lib/wsl/lib/libcuda.so.1',
  'C:\\Windows\\System32\\nvcuda.dll',
];

/** `wanted`: see findCudaGpu. */
export function probeCuda(wanted?: string): Promise<CudaProbe> {
  return askProcess<CudaProbe>(entry, wanted === undefined ? [] : [wanted]);
}

/** Whether there is a driver of NVIDIA's, without loading it. */
export function isNvidiaLikely(): boolean {
  return DRIVER_PATHS.some((path) => existsSync(path));
}
