// What every backend promises of KV blocks, on a simulated GPU.

import { describe } from 'vitest';
import type { KvType } from '../../src/compute/backend.ts';
import type { OpenBackend } from '../contract/backend-contract.ts';
import { blockContract } from '../contract/block-contract.ts';
import { BLOCKS } from '../support/backend-properties.ts';
import { simulatedGpu } from '../support/simulated-gpu.ts';

describe('the cuda backend on a simulated GPU', () => {
  const gpu = simulatedGpu();
  const open: OpenBackend = (model, options) => gpu.create(model, { blockCount: BLOCKS, ...options });

  describe.each<KvType>(['f16', 'q8'])('KV blocks of type %s', (kvType) => blockContract(open, kvType));
});
