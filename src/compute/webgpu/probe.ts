// What GPU WebGPU finds, asked in a process of its own.

import { fileURLToPath } from 'node:url';
import { askProcess, type NotFound } from '../ask-process.ts';
import type { GpuInfo } from './gpu.ts';

export type ProbeResult =
  /** Memory is undefined where it is the machine's own. */
  { readonly found: true; readonly info: GpuInfo; readonly memoryBytes: number | undefined } | NotFound;

const entry = fileURLToPath(new URL('../../../dist/compute/webgpu/probe-process.js', import.meta.url));

export function probeGpu(name?: string): Promise<ProbeResult> {
  return askProcess<ProbeResult>(entry, name === undefined ? [] : [name]);
}
