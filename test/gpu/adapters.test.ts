import { adapterContract } from '../contract/adapter-contract.ts';
import { sharedGpu } from '../support/gpu-backend.ts';
import { describeOnFastestGpu } from '../support/on-gpu.ts';

describeOnFastestGpu('adapters on a GPU', () =>
  adapterContract(sharedGpu().create, { tolerance: 2e-3, everyFormat: false }),
);
