// Models that see on a simulated GPU: what every such backend promises, and the bits of the processor in features and steps.

import { afterAll, afterEach, describe, expect } from 'vitest';
import { createCpuBackend } from '../../src/compute/cpu/backend.ts';
import type { OpenBackend } from '../contract/backend-contract.ts';
import { imageContract } from '../contract/image-contract.ts';
import { BLOCKS } from '../support/backend-properties.ts';
import { BitComparison } from '../support/bit-comparison.ts';
import { smallImage, tiledImage } from '../support/seeing-model.ts';
import { simulatedGpu } from '../support/simulated-gpu.ts';
import { thorough } from '../support/thorough.ts';

const gpu = simulatedGpu();

describe('with the bits of the cpu backend, images of the cuda backend', () => {
  const comparison = new BitComparison(
    (spec, weights, options) => gpu.create({ spec, weights }, options),
    (spec, weights, options) => createCpuBackend(gpu.addon(), spec, weights, { ...options, threads: 1 }),
  );
  const open: OpenBackend = ({ spec, weights }, options) =>
    comparison.create(spec, weights, { blockCount: BLOCKS, ...options });

  afterEach(() => {
    expect(comparison.takeDifferences()).toEqual([]);
  });

  afterAll(() => {
    const { models, values } = comparison.compared;
    expect(models).toBeGreaterThan(0);
    expect(values).toBeGreaterThan(0);
  });

  imageContract(open, {
    settings: [{}],
    pictureOf: thorough ? tiledImage : smallImage,
    types: thorough ? ['F32', 'F16', 'BF16', 'Q8_0', 'Q4_0'] : ['F32', 'Q8_0'],
  });
});
