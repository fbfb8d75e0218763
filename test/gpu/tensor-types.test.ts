// Matrices of every format that a GPU keeps, against the reference backend. Which types become which is for read-weights.test.ts.

import { expect, it } from 'vitest';
import { formats } from '../../src/compute/webgpu/format.ts';
import { type TensorType, tensorLayouts } from '../../src/weights/tensor-type.ts';
import { cosine, floatTypes } from '../support/backend-properties.ts';
import { alone, byReference, gpuBackends } from '../support/gpu-backend.ts';
import { describeOnFastestGpu } from '../support/on-gpu.ts';
import { randomTokens, tinyModel } from '../support/tiny-model.ts';

/** Too few for a second kind of tile: a processor that plays a GPU takes its time to compile a kernel. */
const TOKENS = 6;

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
/** One of each other format: types with the same share their kernels. */
const kinds = types.filter((type, at) =>
  type.startsWith('MLX') ? mlxTypes.includes(type) : keys.indexOf(keys[at] as string) === at,
);

describeOnFastestGpu('the webgpu backend', () => {
  const backends = gpuBackends();

  it.each(kinds)('computes with %s matrices what the reference backend computes', async (type) => {
    const size = Math.max(64, tensorLayouts[type].blockSize);
    const sizes = { hiddenSize: size, ffnSize: size, headSize: 64, headCount: 4, vocabSize: 64 };
    const model = tinyModel({ type, ...sizes, layerCount: 1 });
    const tokens = randomTokens(TOKENS, model.spec.vocabSize, 7);
    const actual = await backends.with(model, 'f16', (backend) => alone(backend, tokens));
    const expected = await byReference(model, tokens);
    expect(cosine(actual, expected)).toBeGreaterThan(floatTypes.includes(type) ? 0.9999 : 0.999);
  });
});
