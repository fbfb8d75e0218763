// The contract of all backends on a GPU played by the processor, which is slow: models are no larger than they must be.

import { expect, it } from 'vitest';
import { createWebGpuBackend } from '../../src/compute/webgpu/backend.ts';
import { formats } from '../../src/compute/webgpu/format.ts';
import { openGpu } from '../../src/compute/webgpu/gpu.ts';
import { type TensorType, tensorLayouts } from '../../src/weights/tensor-type.ts';
import { backendContract, type ContractModels, type OpenBackend } from '../contract/backend-contract.ts';
import { plainModels } from '../contract/contract-models.ts';
import { expectLikeReference, expectSameBits } from '../contract/logits-contract.ts';
import { type NamedModel, namedModels } from '../contract/named-models.ts';
import { logitsOf, whole } from '../contract/running.ts';
import { BLOCKS, superTypes } from '../support/backend-properties.ts';
import { sharedGpu, withBinding } from '../support/gpu-backend.ts';
import { describeOnFastestGpu, isSlowGpu } from '../support/on-gpu.ts';
import { some, thorough } from '../support/thorough.ts';
import { type TinyModelOptions, tinyModel } from '../support/tiny-model.ts';

function small(options: TinyModelOptions): TinyModelOptions {
  const { kvHeadCount = 1, headCount = 1, headSize = 32, hiddenSize = 64, ffnSize = 64 } = options;
  const most = superTypes.includes(options.type ?? 'F32') ? 256 : 64;
  return {
    ...options,
    layerCount: 2,
    headCount: Math.min(headCount, 4 * kvHeadCount),
    headSize: Math.min(headSize, 64),
    hiddenSize: Math.min(hiddenSize, most),
    ffnSize: Math.min(ffnSize, most),
  };
}

const types = Object.keys(tensorLayouts) as TensorType[];
const keys = types.map((type) => JSON.stringify(formats[type]));
/** Each of MLX's encodings, types of scales and sizes of groups, not all of them with each other. */
const mlxTypes: readonly TensorType[] = [
  'MLX3_G64_F16',
  'MLX4_G32',
  'MLX4_G64_BF16',
  'MLX6_G128_BF16',
  'MLX8_G32_F16',
  'MLX8_G64',
  'MLX8_G128_BF16',
];
/** One of each other format: types with the same share their kernels; read-weights.test.ts has all. */
const everyFormat = types.filter((type, at) =>
  type.startsWith('MLX') ? mlxTypes.includes(type) : keys.indexOf(keys[at] as string) === at,
);
/** A third of them in every run: read-weights.test.ts has all. */
const tensorTypes = some(everyFormat);

/**
 * Those with the most in each. Kernels of the others take half a minute to compile; test/cuda/layers.test.ts and the processor's
 * contract have them all in every run, goldens.test.ts models of their kinds.
 */
const mostInEach = [
  'what gemma has',
  'attention and feed-forward in one branch, with norms, gates, sinks and growth',
  'experts chosen by a softmax, and a shared expert with a gate',
  'experts whose input is scaled, and a router with a norm of its own',
  'a layer that reads what another has stored',
  'attention in chunks, per-layer embeddings',
  'MLA',
];

function namedModel(name: string): NamedModel {
  const found = namedModels.find((model) => model.name === name);
  if (found === undefined) throw new Error(`no model is named ${name}`);
  return found;
}

const models: ContractModels = {
  decoders: [plainModels(thorough ? 2 : 1, small)],
  encoders: [],
  named: thorough ? namedModels : mostInEach.map(namedModel),
  tensorTypes,
  kvTypes: ['f16', 'q8'],
  tokens: isSlowGpu ? 12 : 40,
  others: 3,
  otherTokens: 9,
  // The second is longer than a window, and than a block.
  texts: isSlowGpu ? [3, 45] : [33, 3, 66, 1],
  // Two minutes for kernels to compile; vision.test.ts has the most of it in every run.
  ...(thorough ? { images: {} } : {}),
  settings: [{}],
};

describeOnFastestGpu('the webgpu backend', () => {
  const gpu = sharedGpu();
  const open: OpenBackend = ({ spec, weights }, options) =>
    gpu.create(spec, weights, { blockCount: BLOCKS, ...options });

  backendContract(open, models);

  it('computes experts that are more than a kernel can bind at once', async () => {
    const model = tinyModel({
      type: 'Q8_0',
      layerCount: 1,
      hiddenSize: 128,
      ffnSize: 128,
      vocabSize: 64,
      experts: { count: 12, size: 128, router: { score: 'softmax', used: 2, normalized: false, scale: 1 } },
    });
    // Eight experts.
    const limited: OpenBackend = ({ spec, weights }, options) =>
      createWebGpuBackend(spec, weights, {
        blockCount: BLOCKS,
        ...options,
        gpu: withBinding(gpu.gpu(), 8 * 32 * 1024),
      });
    // So few that an expert has about one row: kernels for more take a software GPU ten seconds to compile.
    const few = { ...models, tokens: 6, others: 2, otherTokens: 3 };
    await expectSameBits(limited, few, model, 5, 'q8');
    await expectLikeReference(limited, model, 'q8', few.tokens);
  });

  it('says so when the device is lost in the middle of a step', async () => {
    const doomed = await openGpu();
    const { spec, weights } = tinyModel({ layerCount: 1 });
    const backend = await createWebGpuBackend(spec, weights, { blockCount: 4, gpu: doomed });
    const run = () => logitsOf(backend, whole([1, 2, 3], [0]));
    await run();
    const running = run();
    doomed.device.destroy();
    await expect(running).rejects.toThrow('the GPU was lost');
    await expect(run()).rejects.toThrow('the GPU was lost');
    backend.close();
  });
});
