import { describe } from 'vitest';
import { createCpuBackend } from '../../src/compute/cpu/backend.ts';
import { createReferenceBackend } from '../../src/compute/reference/backend.ts';
import { adapterContract } from '../contract/adapter-contract.ts';
import { addon, hasAddon } from '../support/native.ts';

describe('adapters on the reference backend', () =>
  adapterContract(createReferenceBackend, { tolerance: 2e-5, everyFormat: true }));

describe.skipIf(!hasAddon)('adapters on the cpu backend (skipped where the addon is not built)', () =>
  adapterContract((spec, weights, options) => createCpuBackend(addon(), spec, weights, options), {
    tolerance: 2e-3,
    everyFormat: true,
  }),
);
