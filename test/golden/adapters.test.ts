import { describe } from 'vitest';
import { createReferenceBackend } from '../../src/compute/reference/backend.ts';
import { adapterContract } from '../contract/adapter-contract.ts';
import { createOnCpu, hasAddon } from '../support/native.ts';

describe('adapters on the reference backend', () =>
  adapterContract(createReferenceBackend, { tolerance: 2e-5, everyFormat: true }));

describe.skipIf(!hasAddon)('adapters on the cpu backend (skipped where the addon is not built)', () =>
  adapterContract(createOnCpu, {
    tolerance: 2e-3,
    everyFormat: true,
  }),
);
