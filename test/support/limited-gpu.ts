// A GPU that counts the bytes of its buffers and gives no more than it is told to: the rest is refused as a driver does it
// that is out of memory, by an error of the scope around the call and a buffer that is none.

import type { Gpu } from '../../src/compute/webgpu/gpu.ts';

export class LimitedGpu {
  readonly gpu: Gpu;
  /** What it gives altogether. */
  limitBytes = Number.POSITIVE_INFINITY;
  /** The most that was ever taken at once. */
  peakBytes = 0;
  readonly #sizes = new Map<GPUBuffer, number>();
  #refused = false;

  constructor(gpu: Gpu) {
    const { device } = gpu;
    const replaced: Partial<Record<string | symbol, unknown>> = {
      createBuffer: (descriptor: GPUBufferDescriptor) => this.#create(device, descriptor),
      popErrorScope: async () => {
        const error = await device.popErrorScope();
        const refused = this.#refused;
        this.#refused = false;
        return refused ? { message: 'out of memory' } : error;
      },
    };
    const limited = new Proxy(device, {
      get(target, name) {
        const value: unknown = replaced[name] ?? Reflect.get(target, name, target);
        return typeof value === 'function' ? value.bind(target) : value;
      },
      set: (target, name, value) => Reflect.set(target, name, value, target),
    });
    this.gpu = { ...gpu, device: limited };
  }

  /** Taken and not given back. */
  get bytes(): number {
    return [...this.#sizes.values()].reduce((sum, size) => sum + size, 0);
  }

  #create(device: GPUDevice, descriptor: GPUBufferDescriptor): GPUBuffer {
    if (this.bytes + descriptor.size > this.limitBytes) {
      this.#refused = true;
      return device.createBuffer({ ...descriptor, size: 16 });
    }
    const buffer = device.createBuffer(descriptor);
    this.#sizes.set(buffer, descriptor.size);
    this.peakBytes = Math.max(this.peakBytes, this.bytes);
    const destroy = buffer.destroy.bind(buffer);
    buffer.destroy = () => {
      this.#sizes.delete(buffer);
      return destroy();
    };
    return buffer;
  }
}
