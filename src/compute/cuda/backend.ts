// The `cuda` backend: the Backend contract over the C++ addon and NVIDIA's driver.

import type { ModelSpec } from '../../model/spec.ts';
import { machineLimits } from '../../runtime/limits.ts';
import type { WeightSource } from '../../weights/weight-source.ts';
import { type BackendOptions, type KvType, stateSlotsOf } from '../backend.ts';
import { NativeBackend } from '../cpu/backend.ts';
import type { Addon } from '../cpu/binding.ts';
import { createNativeSampler } from '../cpu/sample-rows.ts';
import { uploadModel } from '../cpu/upload.ts';
import { GpuSampler } from './sampling.ts';

export interface CudaOptions extends BackendOptions {
  readonly threads?: number;
  readonly kvType?: KvType;
  /** Which GPU, as the driver counts them. */
  readonly gpu?: number;
  /** A cubin or PTX for that GPU. */
  readonly kernels: Uint8Array;
}

export async function createCudaBackend(
  addon: Addon,
  spec: ModelSpec,
  weights: WeightSource,
  options: CudaOptions,
): Promise<NativeBackend> {
  const { blockCount, gpu = 0, kernels } = options;
  const stateSlots = stateSlotsOf(spec, options);
  const handle = addon.createOnGpu(options.threads ?? machineLimits().cores, gpu, kernels);
  try {
    const model = await uploadModel(addon, handle, spec, weights, options.onProgress ?? (() => {}));
    addon.assemble(handle, model, options.kvType ?? 'f16', blockCount, stateSlots ?? 0);
    addon.fitBlocks(handle, blockCount, blockCount);
  } catch (error) {
    addon.destroy(handle);
    throw error;
  }
  const sampleRows = createNativeSampler(addon, handle);
  const { vocabSize } = spec;
  const sampler = new GpuSampler({ addon, handle, vocabSize, sampleRows });
  return new NativeBackend('cuda', addon, handle, spec, { blockCount, stateSlots }, sampleRows, sampler);
}
