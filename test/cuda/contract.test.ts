// What every backend promises, of CUDA kernels on a simulated GPU.

import { describe } from 'vitest';
import { backendContract, type OpenBackend } from '../contract/backend-contract.ts';
import { classifierGoldens } from '../contract/golden-contract.ts';
import { BLOCKS } from '../support/backend-properties.ts';
import { simulatedGpu } from '../support/simulated-gpu.ts';

const gpu = simulatedGpu();

const onCuda: OpenBackend = (model, options) => gpu.create(model, { blockCount: BLOCKS, ...options });

describe('classifiers of the cuda backend', () =>
  classifierGoldens((spec, weights, options) => gpu.create({ spec, weights }, { ...options })));

describe('the cuda backend', () =>
  backendContract(onCuda, {
    // Random ones have the processor's bits: see layers.test.ts.
    decoders: [],
    encoders: [],
    texts: [34, 3, 40, 1],
    tensorTypes: ['F32', 'F16', 'BF16', 'Q8_0', 'Q4_0'],
    kvTypes: ['f16'],
    tokens: 33,
    others: 2,
    otherTokens: 5,
    settings: [{}],
  }));
