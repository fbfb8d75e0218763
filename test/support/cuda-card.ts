// A real GPU of NVIDIA's, where this machine has one.

import { describe } from 'vitest';
import type { Backend } from '../../src/compute/backend.ts';
import { type CudaOptions, createCudaBackend } from '../../src/compute/cuda/backend.ts';
import { findCudaGpu } from '../../src/compute/cuda/gpu.ts';
import { isNvidiaLikely } from '../../src/compute/cuda/probe.ts';
import type { ModelSpec } from '../../src/model/spec.ts';
import { messageOf } from '../../src/runtime/error-message.ts';
import type { WeightSource } from '../../src/weights/weight-source.ts';
import { addon, hasAddon } from './native.ts';

/** Undefined where there is one. */
function missingCard(): string | undefined {
  if (!isNvidiaLikely()) return 'there is no NVIDIA driver on this machine';
  if (!hasAddon) return 'the addon is not built';
  try {
    findCudaGpu(addon());
    return undefined;
  } catch (error) {
    return messageOf(error);
  }
}

/** Skipped, with the reason in its name, where there is none. */
export function describeOnCard(name: string, tests: () => void): void {
  const missing = missingCard();
  describe.skipIf(missing !== undefined)(
    missing === undefined ? name : `${name} (skipped: ${missing})`,
    tests,
  );
}

export function createOnCard(spec: ModelSpec, weights: WeightSource, options: CudaOptions): Promise<Backend> {
  return createCudaBackend(addon(), spec, weights, options);
}
