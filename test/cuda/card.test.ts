// The cuda backend on a real card: the contract of all backends.

import { type TensorType, tensorLayouts } from '../../src/weights/tensor-type.ts';
import { backendContract, type OpenBackend } from '../contract/backend-contract.ts';
import { allFeatures, plainModels, randomEncoders, rareLayers } from '../contract/contract-models.ts';
import { BLOCKS } from '../support/backend-properties.ts';
import { createOnCard, describeOnCard } from '../support/cuda-card.ts';
import { cases } from '../support/thorough.ts';

const onCard: OpenBackend = ({ spec, weights }, options) =>
  createOnCard(spec, weights, { blockCount: BLOCKS, ...options });

describeOnCard('the cuda backend on a card', () => {
  backendContract(onCard, {
    decoders: [plainModels(cases(30, 0.25)), allFeatures(cases(30, 0.25)), ...rareLayers(cases(10, 0.25))],
    encoders: [randomEncoders(cases(20, 0.25), ['F32', 'BF16', 'Q8_0', 'Q4_0'])],
    tensorTypes: Object.keys(tensorLayouts) as TensorType[],
    kvTypes: ['f16', 'q8'],
    tokens: 100,
    others: 16,
    otherTokens: 120,
    texts: [70, 3, 130, 33, 1],
    images: {},
    settings: [{ threads: 1 }],
  });
});
