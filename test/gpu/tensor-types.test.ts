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
/** One of each format: types with the same share their kernels. */
const kinds = types.filter((_, at) => keys.indexOf(keys[at] as string) === at);

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
