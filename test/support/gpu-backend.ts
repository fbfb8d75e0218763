// One GPU for all tests of a file, which so share its compiled kernels, and backends on it.

import { afterAll, beforeAll } from 'vitest';
import type { Backend, CreateBackend, KvType } from '../../src/compute/backend.ts';
import { buildBatch } from '../../src/compute/batch.ts';
import { createReferenceBackend } from '../../src/compute/reference/backend.ts';
import { createWebGpuBackend } from '../../src/compute/webgpu/backend.ts';
import { type Gpu, openGpu } from '../../src/compute/webgpu/gpu.ts';
import { BLOCKS, blocksFor } from './backend-properties.ts';
import type { TinyModel } from './tiny-model.ts';

export interface GpuBackends {
  readonly create: CreateBackend;
  /** A backend of any model, closed in the end. */
  with<Result>(model: TinyModel, kvType: KvType, use: (backend: Backend) => Promise<Result>): Promise<Result>;
  /** The same on a GPU whose kernels bind no more than so many bytes at once. */
  binding(bytes: number): GpuBackends;
}

/** To be called where tests are described; the GPU is open while they run. */
export function gpuBackends(): GpuBackends {
  let gpu: Gpu;
  beforeAll(async () => {
    gpu = await openGpu();
  });
  afterAll(() => gpu.close());
  return backendsOn(() => gpu);
}

function backendsOn(open: () => Gpu): GpuBackends {
  return {
    create: (spec, weights, options) => createWebGpuBackend(spec, weights, { ...options, gpu: open() }),
    async with({ spec, weights }, kvType, use) {
      const backend = await createWebGpuBackend(spec, weights, { blockCount: BLOCKS, kvType, gpu: open() });
      try {
        return await use(backend);
      } finally {
        backend.close();
      }
    },
    binding(bytes) {
      return backendsOn(() => {
        const gpu = open();
        return {
          ...gpu,
          info: { ...gpu.info, limits: { ...gpu.info.limits, bindingBytes: bytes } },
        };
      });
    },
  };
}

/** Logits of every position of one sequence, computed alone and in one piece. */
export async function alone(backend: Backend, tokens: readonly number[]): Promise<Float32Array> {
  const blocks = Array.from({ length: blocksFor(tokens.length) }, (_, block) => block);
  const { logits } = await backend.step(buildBatch([{ tokens, start: 0, blocks, wantLogits: 'all' }]));
  return logits.slice();
}

export async function byReference(
  { spec, weights }: TinyModel,
  tokens: readonly number[],
): Promise<Float32Array> {
  return alone(await createReferenceBackend(spec, weights, { blockCount: BLOCKS }), tokens);
}
