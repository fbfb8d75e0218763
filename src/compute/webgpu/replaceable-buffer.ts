// A buffer that kernels bind and that another may take the place of between steps.

export class ReplaceableBuffer {
  current: GPUBuffer;

  constructor(buffer: GPUBuffer) {
    this.current = buffer;
  }
}

/** Whatever kernels bind. */
export type Bindable = GPUBuffer | ReplaceableBuffer;
