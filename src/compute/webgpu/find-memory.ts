// How much memory a GPU gives, found by asking for it: WebGPU has no other way.

import type { Gpu } from './gpu.ts';

const PIECE_BYTES = 2 ** 30;
/** More than any GPU has. */
const MOST_PIECES = 1024;

/** Bytes, to a gigabyte; all of them are given back. */
export async function findGpuMemory({ device, info }: Gpu): Promise<number> {
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
