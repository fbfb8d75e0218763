import { describe } from 'vitest';
import { createCpuBackend } from '../../src/compute/cpu/backend.ts';
import { type TensorType, tensorLayouts } from '../../src/weights/tensor-type.ts';
import { BLOCKS } from '../support/backend-properties.ts';
import { addon, hasAddon } from '../support/native.ts';
import { cases } from '../support/thorough.ts';
import { backendContract, type OpenBackend } from './backend-contract.ts';
import { allFeatures, plainModels, randomEncoders, rareLayers } from './contract-models.ts';

const onCpu: OpenBackend = ({ spec, weights }, options) =>
  createCpuBackend(addon(), spec, weights, { blockCount: BLOCKS, ...options });

describe.skipIf(!hasAddon)('the cpu backend (skipped where the addon is not built)', () =>
  backendContract(onCpu, {
    decoders: [plainModels(cases(60, 0.2)), allFeatures(cases(50, 0.1)), ...rareLayers(cases(20, 0.2))],
    encoders: [randomEncoders(cases(40, 0.15), ['F32', 'BF16', 'Q8_0', 'Q4_0'])],
    tensorTypes: Object.keys(tensorLayouts) as TensorType[],
    kvTypes: ['f16', 'q8'],
    tokens: 100,
    others: 16,
    otherTokens: 120,
    texts: [70, 3, 130, 33, 1],
    images: {},
    settings: [{ threads: 1 }, { threads: 2 }],
  }),
);
