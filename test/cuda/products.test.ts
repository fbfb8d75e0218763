// Products of the CUDA backend have the bits of the processor's: on the simulated GPU, which runs the same kernels, or on a real
// one where CHAIRLIFT_CUDA_KERNELS names its compiled kernels.

import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { beforeAll, describe, expect, it } from 'vitest';
import { buildNative, findCompiler } from '../../scripts/build-native.js';
import { createCpuBackend } from '../../src/compute/cpu/backend.ts';
import { type Addon, loadAddon } from '../../src/compute/cpu/binding.ts';
import { createCudaBackend } from '../../src/compute/cuda/backend.ts';
import { type TensorType, tensorLayouts } from '../../src/weights/tensor-type.ts';
import { logitsOf, whole } from '../contract/running.ts';
import { randomBlocks, seededRandom } from '../support/random-blocks.ts';
import { randomTokens, tinyModel } from '../support/tiny-model.ts';

const types = Object.keys(tensorLayouts) as TensorType[];
// One of each way in which kernels read weights.
const kinds: readonly TensorType[] = [
  'Q4_0',
  'Q8_0',
  'Q6_K',
  'Q4_K',
  'MXFP4',
  'MLX4_G32_F16',
  'MLX4_G64_BF16',
  'MLX4_G128_F16',
];
const floats: readonly TensorType[] = ['F32', 'F16', 'BF16', 'F8_G32', 'F8_G128'];
// Not whole panels.
const OUTPUTS = 35;
const kernelFile = process.env.CHAIRLIFT_CUDA_KERNELS;
const kernels = kernelFile === undefined ? new Uint8Array(1) : new Uint8Array(readFileSync(kernelFile));
const output = fileURLToPath(new URL('../../build/chairlift-simulated-gpu.node', import.meta.url));
const compiler = findCompiler();

interface Asked {
  readonly type: TensorType;
  readonly inputs: number;
  readonly rows: number;
  readonly family?: string;
  readonly members?: number;
}

describe.skipIf(compiler === undefined)('a product on a GPU (skipped without a compiler)', () => {
  let addon: Addon;
  beforeAll(async () => {
    const isSimulated = kernelFile === undefined && compiler !== undefined;
    if (isSimulated) await buildNative({ compiler, output, sets: ['scalar'], simulatesGpu: true });
    const load = loadAddon(isSimulated ? output : undefined);
    if (!load.available) throw new Error(load.reason);
    addon = load.addon;
  });

  /** What the GPU and the processor make of random weights; rows are shared out among members in order. */
  function bothOf({ type, inputs: wanted, rows, family = '', members = 1 }: Asked) {
    const { blockSize } = tensorLayouts[type];
    const inputs = Math.ceil(wanted / blockSize) * blockSize;
    const random = seededRandom(inputs * 131 + rows);
    const weights = randomBlocks(type, (members * OUTPUTS * inputs) / blockSize, random);
    const x = Float32Array.from({ length: rows * inputs }, () => random() - 0.5);
    const [onGpu, expected] = [new Float32Array(rows * OUTPUTS), new Float32Array(rows * OUTPUTS)];
    const tiles: number[] = [];
    const [rowsOfMember, bytesOfMember] = [Math.ceil(rows / members), weights.length / members];
    for (let member = 0; member < members; member++) {
      const [first, end] = [member * rowsOfMember, Math.min(rows, (member + 1) * rowsOfMember)];
      for (let row = first; row < end; row += 8) tiles.push(member, row, Math.min(8, end - row));
      const own = weights.subarray(member * bytesOfMember, (member + 1) * bytesOfMember);
      const out = expected.subarray(first * OUTPUTS, end * OUTPUTS);
      addon.multiply('scalar', type, own, OUTPUTS, inputs, x.subarray(first * inputs, end * inputs), out);
    }
    const product = { type, outputs: OUTPUTS, inputs, members, rows, family };
    const ownTiles = Int32Array.from(members === 1 ? [] : tiles);
    addon.multiplyOnGpu(0, kernels, { ...product, tiles: ownTiles }, weights, x, onGpu);
    return { onGpu, expected };
  }

  function expectSameBits(asked: Asked) {
    const { onGpu, expected } = bothOf(asked);
    expect(onGpu, JSON.stringify(asked)).toEqual(expected);
  }

  it.each(types)('has the bits of the processor with few rows: %s', (type) => {
    for (const inputs of [32, 96, 544, 1056]) {
      for (const rows of [1, 11]) expectSameBits({ type, inputs, rows });
    }
  });

  it.each(kinds)('has the bits of the processor with every family of kernels: %s', (type) => {
    for (const family of ['few', 'many']) {
      for (const inputs of [96, 1056]) {
        for (const rows of [3, 31, 70]) expectSameBits({ type, inputs, rows, family });
      }
    }
  });

  it.each(['Q4_0', 'Q8_0', 'Q4_K'] as const)(
    'keeps the order of sums where a block takes inputs in chunks: %s',
    (type) => {
      for (const rows of [3, 13, 30]) expectSameBits({ type, inputs: 10 * 512 + 256, rows, family: 'few' });
    },
  );

  it.each(floats)('has the bits of the processor with floats and any number of rows: %s', (type) => {
    for (const family of ['few', 'many']) {
      for (const inputs of [50, 1056]) {
        for (const rows of [1, 2, 4, 13, 70]) expectSameBits({ type, inputs, rows, family });
      }
    }
  });

  it.each([...kinds, 'Q5_K', 'BF16', 'F8_G32'] as const)(
    'multiplies tiles of several members: %s',
    (type) => {
      for (const family of ['few', 'many']) {
        for (const rows of [5, 90]) expectSameBits({ type, inputs: 544, rows, family, members: 3 });
      }
    },
  );

  it.each(types)('makes the bits of the processor in a model: %s', async (type) => {
    const { blockSize } = tensorLayouts[type];
    const size = Math.max(64, blockSize);
    const sizes = {
      hiddenSize: size,
      headCount: size / 16,
      kvHeadCount: 2,
      headSize: 16,
      ffnSize: size,
      vocabSize: 37,
    };
    const model = tinyModel({ type, layerCount: 1, ...sizes, biases: true });
    const tokens = randomTokens(9, 37, 5);
    const sequence = whole(tokens, [0], 'all');
    const onCpu = await createCpuBackend(addon, model.spec, model.weights, { blockCount: 1, threads: 1 });
    const expected = await logitsOf(onCpu, sequence);
    onCpu.close();
    const onGpu = await createCudaBackend(addon, model.spec, model.weights, {
      blockCount: 1,
      threads: 1,
      kernels,
    });
    const logits = await logitsOf(onGpu, sequence);
    onGpu.close();
    expect(logits).toEqual(expected);
  });
});
