// GPU memory: allocates every buffer, so that bytes in use are known and running out of memory is an error, not a lost
// device.

// GPUBufferUsage, which exists only once Dawn is loaded.
const USAGE = { mapRead: 1, copySource: 4, copyTarget: 8, uniform: 64, storage: 128 } as const;

export class GpuMemoryError extends Error {
  override readonly name = 'GpuMemoryError';
}

/** Bytes that may be on their way to the device at once. */
const IN_FLIGHT_BYTES = 64 << 20;

/** A buffer that kernels bind and that another may replace between steps. */
export class ReplaceableBuffer {
  current: GPUBuffer;

  constructor(buffer: GPUBuffer) {
    this.current = buffer;
  }
}

export type Bindable = GPUBuffer | ReplaceableBuffer;

export class GpuMemory {
  readonly #device: GPUDevice;
  readonly #buffers = new Set<GPUBuffer>();
  #bytes = 0;
  #inFlight = 0;

  constructor(device: GPUDevice) {
    this.#device = device;
  }

  /** A buffer that kernels read and write. */
  async storage(label: string, bytes: number): Promise<GPUBuffer> {
    return this.#create(label, bytes, USAGE.storage | USAGE.copySource | USAGE.copyTarget);
  }

  /** A buffer that the processor reads. */
  async readback(label: string, bytes: number): Promise<GPUBuffer> {
    return this.#create(label, bytes, USAGE.mapRead | USAGE.copyTarget);
  }

  async filled(
    label: string,
    content: Float32Array<ArrayBuffer> | Uint32Array<ArrayBuffer>,
  ): Promise<GPUBuffer> {
    const buffer = await this.storage(label, content.byteLength);
    this.#device.queue.writeBuffer(buffer, 0, content);
    return buffer;
  }

  /** A few words that never change. */
  async constants(label: string, content: Uint32Array<ArrayBuffer>): Promise<GPUBuffer> {
    const buffer = await this.#create(label, content.byteLength, USAGE.uniform | USAGE.copyTarget);
    this.#device.queue.writeBuffer(buffer, 0, content);
    return buffer;
  }

  /** Writes a piece of a large buffer; waits while too much is on its way. */
  async upload(buffer: GPUBuffer, at: number, content: Uint32Array<ArrayBuffer>): Promise<void> {
    this.#device.queue.writeBuffer(buffer, at, content);
    this.#inFlight += content.byteLength;
    if (this.#inFlight < IN_FLIGHT_BYTES) return;
    this.#inFlight = 0;
    await this.#device.queue.onSubmittedWorkDone();
  }

  get bytes(): number {
    return this.#bytes;
  }

  /** Commands that were submitted before still have the buffer. */
  free(buffer: GPUBuffer): void {
    if (!this.#buffers.delete(buffer)) throw new Error(`${buffer.label} is not one of these buffers`);
    this.#bytes -= buffer.size;
    buffer.destroy();
  }

  /** The same, where it was not released with all others. */
  drop(buffer: GPUBuffer): void {
    if (this.#buffers.has(buffer)) this.free(buffer);
  }

  release(): void {
    for (const buffer of this.#buffers) this.free(buffer);
  }

  async #create(label: string, bytes: number, usage: number): Promise<GPUBuffer> {
    const size = Math.max(16, Math.ceil(bytes / 4) * 4);
    const { maxBufferSize } = this.#device.limits;
    if (size > maxBufferSize) {
      throw new GpuMemoryError(
        `${label} takes ${size} bytes, more than a buffer of this GPU holds (${maxBufferSize})`,
      );
    }
    this.#device.pushErrorScope('out-of-memory');
    const buffer = this.#device.createBuffer({ label, size, usage });
    const error = await this.#device.popErrorScope();
    if (error !== null) {
      throw new GpuMemoryError(
        `the GPU has no room for ${label} (${size} bytes, after ${this.#bytes} bytes already in use)`,
      );
    }
    this.#bytes += size;
    this.#buffers.add(buffer);
    return buffer;
  }
}
