// Kernels compiled for one device, each text once. A kernel's bindings are what its text declares.

const BINDING = /@group\(0\) @binding\((\d+)\) var<(uniform|storage, read|storage, read_write)>/g;

const bufferTypes = {
  uniform: 'uniform',
  'storage, read': 'read-only-storage',
  'storage, read_write': 'storage',
} as const;

const known = new WeakMap<GPUDevice, Programs>();

export class Programs {
  /** Shared by all backends on a device. */
  static of(device: GPUDevice): Programs {
    const programs = known.get(device) ?? new Programs(device);
    known.set(device, programs);
    return programs;
  }

  readonly #device: GPUDevice;
  readonly #layouts = new Map<string, GPUBindGroupLayout>();
  readonly #pipelines = new Map<string, GPUComputePipeline>();
  readonly #compiling = new Map<string, Promise<void>>();

  private constructor(device: GPUDevice) {
    this.#device = device;
  }

  /** Starts compiling; `ready` waits for all. */
  add(label: string, text: string): void {
    if (this.#compiling.has(text)) return;
    this.#compiling.set(text, this.#compile(label, text));
  }

  async ready(): Promise<void> {
    await Promise.all(this.#compiling.values());
  }

  /** Compiles now where `add` did not. */
  pipeline(label: string, text: string): GPUComputePipeline {
    const known = this.#pipelines.get(text);
    if (known !== undefined) return known;
    const pipeline = this.#device.createComputePipeline(this.#describe(label, text));
    this.#pipelines.set(text, pipeline);
    return pipeline;
  }

  /** The buffers in the order of the kernel's bindings. */
  bind(text: string, buffers: readonly GPUBuffer[]): GPUBindGroup {
    const places = [...text.matchAll(BINDING)].map(([, place]) => Number(place)).sort((a, b) => a - b);
    if (places.length !== buffers.length) {
      throw new Error(`a kernel of ${places.length} bindings was given ${buffers.length} buffers`);
    }
    return this.#device.createBindGroup({
      layout: this.#layout(text),
      entries: places.map((binding, index) => ({
        binding,
        resource: { buffer: buffers[index] as GPUBuffer },
      })),
    });
  }

  async #compile(label: string, text: string): Promise<void> {
    this.#pipelines.set(text, await this.#device.createComputePipelineAsync(this.#describe(label, text)));
  }

  #describe(label: string, text: string): GPUComputePipelineDescriptor {
    const module = this.#device.createShaderModule({ label, code: text });
    const layout = this.#device.createPipelineLayout({ bindGroupLayouts: [this.#layout(text)] });
    return { label, layout, compute: { module, entryPoint: 'main' } };
  }

  #layout(text: string): GPUBindGroupLayout {
    const bindings = [...text.matchAll(BINDING)].map(([, place, access]) => ({
      place: Number(place),
      access,
    }));
    const key = bindings
      .map(({ place, access }) => `${place}${access}`)
      .sort()
      .join();
    const known = this.#layouts.get(key);
    if (known !== undefined) return known;
    const layout = this.#device.createBindGroupLayout({
      entries: bindings.map(({ place, access }) => ({
        binding: place,
        // GPUShaderStage.COMPUTE
        visibility: 4,
        buffer: { type: bufferTypes[access as keyof typeof bufferTypes] },
      })),
    });
    this.#layouts.set(key, layout);
    return layout;
  }
}
