// Run as a process of its own: reports what the GPU is like and how much memory it gives, so that a driver that crashes or
// hangs takes nothing with it.

import { messageOf } from '../../runtime/error-message.ts';
import { type Gpu, openGpu } from './gpu.ts';
import type { ProbeResult } from './probe.ts';

const PIECE_BYTES = 2 ** 30;
/** More than any GPU has. */
const MOST_PIECES = 1024;

/** Bytes, to a gigabyte, found by allocating them: WebGPU has no other way. */
async function findGpuMemory({ device, info }: Gpu): Promise<number> {
  const size = Math.min(PIECE_BYTES, info.limits.bufferBytes);
  const pieces: GPUBuffer[] = [];
  for (let piece = 0; piece < MOST_PIECES; piece++) {
    device.pushErrorScope('out-of-memory');
    // GPUBufferUsage.STORAGE
    const buffer = device.createBuffer({ size, usage: 128 });
    const error = await device.popErrorScope();
    if (error !== null) break;
    pieces.push(buffer);
  }
  for (const piece of pieces) piece.destroy();
  return pieces.length * size;
}

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
