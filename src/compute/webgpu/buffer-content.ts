// Bytes of parts of GPU buffers, copied out and in. The copy out is in the GPU's queue when the call returns, so that it has what
// was there before later commands; the processor gets it when the GPU is done.

import { GpuMemoryError } from './memory.ts';

export interface BufferPart {
  readonly buffer: GPUBuffer;
  readonly at: number;
  readonly bytes: number;
}

/** GPUBufferUsage's, which exists only once Dawn is loaded. */
const READBACK = 1 | 8;

/** For each list of parts their bytes, one after the other. */
export async function readParts(
  device: GPUDevice,
  lists: readonly (readonly BufferPart[])[],
): Promise<Uint8Array<ArrayBuffer>[]> {
  const size = lists.flat().reduce((sum, { bytes }) => sum + bytes, 0);
  if (size === 0) return lists.map(() => new Uint8Array(0));
  device.pushErrorScope('out-of-memory');
  const readback = device.createBuffer({ label: 'KV content', size, usage: READBACK });
  const error = device.popErrorScope();
  const encoder = device.createCommandEncoder();
  let to = 0;
  for (const { buffer, at, bytes } of lists.flat()) {
    encoder.copyBufferToBuffer(buffer, at, readback, to, bytes);
    to += bytes;
  }
  device.queue.submit([encoder.finish()]);
  try {
    if ((await error) !== null) throw new GpuMemoryError(`the GPU has no room to give ${size} bytes of KV`);
    await readback.mapAsync(1);
    const all = new Uint8Array(readback.getMappedRange());
    let from = 0;
    return lists.map((parts) => {
      const bytes = parts.reduce((sum, part) => sum + part.bytes, 0);
      from += bytes;
      return all.slice(from - bytes, from);
    });
  } finally {
    readback.destroy();
  }
}

/** `bytes` are those of all parts, one after the other, and may be changed afterwards. */
export function writeParts(device: GPUDevice, parts: readonly BufferPart[], bytes: Uint8Array): void {
  const size = parts.reduce((sum, part) => sum + part.bytes, 0);
  if (bytes.length !== size) throw new Error(`content of another size: ${bytes.length} bytes, not ${size}`);
  let from = 0;
  for (const { buffer, at, bytes: own } of parts) {
    device.queue.writeBuffer(buffer, at, bytes as Uint8Array<ArrayBuffer>, from, own);
    from += own;
  }
}
