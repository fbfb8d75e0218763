// Run as a process of its own: tells what the GPU is like and how much memory it gives, so that a driver that crashes or
// hangs takes nothing with it.

import { messageOf } from '../../runtime/error-message.ts';
import { findGpuMemory } from './find-memory.ts';
import { openGpu } from './gpu.ts';
import type { ProbeResult } from './probe.ts';

async function probe(name: string | undefined): Promise<ProbeResult> {
  try {
    const gpu = await openGpu(name);
    return {
      found: true,
      info: gpu.info,
      // Asking for all of the machine's memory would push everything else out of it.
      memoryBytes: gpu.info.software || gpu.info.unified ? undefined : await findGpuMemory(gpu),
    };
  } catch (error) {
    return { found: false, reason: messageOf(error) };
  }
}

const result = await probe(process.argv[2]);
process.send?.(result, () => process.exit(0));
