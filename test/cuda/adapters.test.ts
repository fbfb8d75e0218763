// What every backend promises of adapters, of CUDA kernels on a simulated GPU.

import { describe } from 'vitest';
import { adapterContract } from '../contract/adapter-contract.ts';
import { simulatedGpu } from '../support/simulated-gpu.ts';

const gpu = simulatedGpu();

describe('adapters of the cuda backend', () =>
  adapterContract((spec, weights, options) => gpu.create({ spec, weights }, options), {
    tolerance: 2e-3,
    everyFormat: false,
  }));
