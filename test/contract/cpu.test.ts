import { describe } from 'vitest';
import { createCpuBackend } from '../../src/compute/cpu/backend.ts';
import { type TensorType, tensorLayouts } from '../../src/weights/tensor-type.ts';
import { BLOCKS } from '../support/backend-properties.ts';
import { addon, hasAddon } from '../support/native.ts';
import { cases } from '../support/thorough.ts';
import { backendContract, type OpenBackend } from './backend-contract.ts';
import { allFeatures, plainModels, randomEncoders, rareLayers } from './contract-models.ts';
import { type NamedModel, namedModels } from './named-models.ts';

/** Heads of several sizes, windows, sinks, and attention that two layers read. */
const inFourBits = [
  'a window and norms of queries and keys',
  'heads of 80, one shared',
  'attention and feed-forward in one branch, with norms, gates, sinks and growth',
  'a layer that reads what another has stored',
  'attention in chunks, per-layer embeddings',
].map((wanted): NamedModel => {
  const found = namedModels.find(({ name }) => name === wanted);
  if (found === undefined) throw new Error(`no model is named ${wanted}`);
  return { ...found, name: `${wanted}, KV of four bits`, kvType: 'q4' };
});

const onCpu: OpenBackend = ({ spec, weights }, options) =>
  createCpuBackend(addon(), spec, weights, { blockCount: BLOCKS, ...options });

describe.skipIf(!hasAddon)('the cpu backend (skipped where the addon is not built)', () =>
  backendContract(onCpu, {
    decoders: [plainModels(cases(60, 0.2)), allFeatures(cases(50, 0.1)), ...rareLayers(cases(20, 0.2))],
    encoders: [randomEncoders(cases(40, 0.15), ['F32', 'BF16', 'Q8_0', 'Q4_0'])],
    named: [...namedModels, ...inFourBits],
    tensorTypes: Object.keys(tensorLayouts) as TensorType[],
    kvTypes: ['f16', 'q8', 'q4'],
    tokens: 100,
    others: 16,
    otherTokens: 120,
    texts: [70, 3, 130, 33, 1],
    images: {},
    settings: [{ threads: 1 }, { threads: 2 }],
  }),
);
