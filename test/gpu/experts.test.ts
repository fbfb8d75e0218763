// Mixtures of experts on a GPU: rows go to the experts that the reference backend would choose, and to those alone.

import { expect, it } from 'vitest';
import { gpuBackends } from '../support/gpu-backend.ts';
import { expectPromises } from '../support/gpu-promises.ts';
import { describeOnFastestGpu, describeOnGpu } from '../support/on-gpu.ts';
import { type TinyModelOptions, tinyModel } from '../support/tiny-model.ts';

const sizes: TinyModelOptions = {
  layerCount: 1,
  hiddenSize: 32,
  headCount: 2,
  kvHeadCount: 1,
  headSize: 8,
  ffnSize: 36,
  vocabSize: 64,
};

describeOnGpu('experts on a GPU', () => {
  const backends = gpuBackends();

  it('are chosen by a softmax, beside a feed-forward of which each row takes a share', async () => {
    const model = tinyModel({
      ...sizes,
      biases: true,
      residualScale: 0.6,
      experts: {
        count: 9,
        size: 20,
        router: { score: 'softmax', used: 3, normalized: true, scale: 1.5 },
        expertScales: true,
        shared: true,
      },
    });
    await expectPromises(backends, model, 'f16');
  });
});

describeOnFastestGpu('experts on a GPU', () => {
  const backends = gpuBackends();

  it('are chosen by a sigmoid and a bias from the best groups, in a branch of their own', async () => {
    const model = tinyModel({
      ...sizes,
      type: 'Q8_0',
      hiddenSize: 64,
      headSize: 32,
      ffnSize: 64,
      experts: {
        count: 12,
        size: 64,
        router: {
          score: 'sigmoid',
          used: 4,
          normalized: true,
          scale: 2.5,
          groups: { count: 4, used: 2, by: 'best-two' },
        },
        choiceBias: true,
      },
    });
    await expectPromises(backends, model, 'f16');
  });

  it('read rows by the factor of each choice, where a router sees the stream by itself', async () => {
    const model = tinyModel({
      ...sizes,
      layerNorms: true,
      postNorms: true,
      activation: { limit: 1, slope: 1.7 },
      experts: {
        count: 6,
        size: 24,
        router: {
          score: 'sigmoid',
          used: 2,
          normalized: false,
          scale: 1,
          groups: { count: 3, used: 2, by: 'best' },
        },
        routerNorm: true,
        scalesInput: true,
      },
    });
    await expectPromises(backends, model, 'f16');
    expect(model.spec.layers[0]?.branches[1]?.parts[0]?.body).toMatchObject({ scalesInput: true });
  });
});
