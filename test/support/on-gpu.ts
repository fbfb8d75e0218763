// Tests that run once on each software GPU, or on the fastest of them alone: vitest.config.ts says which one this is.

import { describe, inject } from 'vitest';
import type { SoftwareGpu } from './software-gpus.ts';
import { thorough } from './thorough.ts';

declare module 'vitest' {
  interface ProvidedContext {
    readonly gpu: SoftwareGpu;
    /** The name of the fastest that there is. */
    readonly fastestGpu: string | undefined;
  }
}

const gpu = inject('gpu');

/** A row of a step takes a hundredth of a second, on others a thousandth. */
export const isSlowGpu = gpu.name === 'SwiftShader';

/** For processes that a test starts. */
export const gpuEnvironment = gpu.environment;

/** Skipped, with the reason in its name, where the GPU is missing. */
export function describeOnGpu(name: string, tests: () => void): void {
  describe.skipIf(gpu.missing !== undefined)(named(name, gpu.missing), tests);
}

/** For what takes long and shows no more on a second GPU. */
export function describeOnFastestGpu(name: string, tests: () => void): void {
  const fastest = inject('fastestGpu');
  const slower = fastest === gpu.name || thorough ? undefined : `${fastest} is here and faster`;
  const reason = gpu.missing ?? slower;
  describe.skipIf(reason !== undefined)(named(name, reason), tests);
}

function named(name: string, reason: string | undefined): string {
  return reason === undefined ? name : `${name} (skipped: ${reason})`;
}
