// Models that see on a simulated GPU: what every such backend promises, and the bits of the processor in features and steps.

import { afterAll, afterEach, describe, expect, it } from 'vitest';
import { createCpuBackend } from '../../src/compute/cpu/backend.ts';
import type { OpenBackend } from '../contract/backend-contract.ts';
import { imageContract } from '../contract/image-contract.ts';
import { BLOCKS } from '../support/backend-properties.ts';
import { BitComparison } from '../support/bit-comparison.ts';
import { plainImage, seeingModel, smallImage, tiledImage } from '../support/seeing-model.ts';
import { limitSimulatedSharedMemory, simulatedGpu } from '../support/simulated-gpu.ts';
import { thorough } from '../support/thorough.ts';

const gpu = simulatedGpu();

describe('with the bits of the cpu backend, images of the cuda backend', () => {
  const comparison = new BitComparison(
    (spec, weights, options) => gpu.create({ spec, weights }, options),
    (spec, weights, options) => createCpuBackend(gpu.addon(), spec, weights, { ...options, threads: 1 }),
  );
  const open: OpenBackend = ({ spec, weights }, options) =>
    comparison.create(spec, weights, { blockCount: BLOCKS, ...options });

  it('are refused where heads are too large for a GPU, before anything is computed', async () => {
    limitSimulatedSharedMemory(40 << 10);
    const model = seeingModel({ headSize: 96 });
    await expect(open(model, {})).rejects.toThrow(
      'heads of 96 values in a vision tower need more shared memory than a simulated GPU has',
    );
  });

  afterEach(() => {
    limitSimulatedSharedMemory(undefined);
    expect(comparison.takeDifferences()).toEqual([]);
  });

  afterAll(() => {
    const { models, values } = comparison.compared;
    expect(models).toBeGreaterThan(0);
    expect(values).toBeGreaterThan(0);
  });

  it.each([
    { of: 'over several segments of tokens', headSize: 24, width: 100, height: 92 },
    { of: 'with large heads', headSize: 96, width: 44, height: 36 },
    { of: 'on blocks with 50 KB', headSize: 48, width: 44, height: 36, sharedBytes: 50 << 10 },
    {
      of: 'with large heads, on those of Turing',
      headSize: 96,
      width: 44,
      height: 36,
      sharedBytes: 64 << 10,
    },
  ])('have features $of', async ({ headSize, width, height, sharedBytes }) => {
    limitSimulatedSharedMemory(sharedBytes);
    const backend = await open(seeingModel({ headSize }), {});
    const run = backend.beginImage?.(plainImage(5, width, height));
    await run?.advance(Number.POSITIVE_INFINITY);
    expect(run?.features?.embeddings.every(Number.isFinite)).toBe(true);
    run?.close();
    backend.close();
  });

  imageContract(open, {
    settings: [{}],
    pictureOf: thorough ? tiledImage : smallImage,
    types: thorough ? ['F32', 'F16', 'BF16', 'Q8_0', 'Q4_0'] : ['F32', 'Q8_0'],
  });
});
