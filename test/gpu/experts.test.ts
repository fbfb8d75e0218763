// Mixtures of experts on a GPU: rows go to the experts that the reference backend chooses, and come back the same bits
// whoever else is there.

import { it } from 'vitest';
import type { BodySpec, ModelSpec } from '../../src/model/spec.ts';
import { gpuBackends } from '../support/gpu-backend.ts';
import { expectPromises } from '../support/gpu-promises.ts';
import { describeOnFastestGpu } from '../support/on-gpu.ts';
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

describeOnFastestGpu('experts on a GPU', () => {
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

  it('are chosen by a sigmoid and a bias from the best groups', async () => {
    const model = tinyModel({
      ...sizes,
      seed: 2,
      ungated: true,
      experts: {
        count: 12,
        size: 20,
        router: {
          score: 'sigmoid',
          used: 4,
          normalized: true,
          scale: 2.5,
          groups: { count: 4, used: 2, by: 'best-two' },
        },
        routingBias: true,
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
          groups: { count: 3, used: 1, by: 'best' },
        },
        routerNorm: true,
        scalesInput: true,
      },
    });
    await expectPromises(backends, model, 'f16');
  });

  it('are taken from the first on where all are as good', async () => {
    const router = { score: 'softmax', used: 3, normalized: true, scale: 1 } as const;
    const { spec, weights } = tinyModel({ ...sizes, experts: { count: 9, size: 20, router } });
    await expectPromises(backends, { spec: eachBody(spec, withEqualScores), weights }, 'f16');
  });

  it('may be more than a kernel can bind at once', async () => {
    const model = tinyModel({
      ...sizes,
      type: 'Q8_0',
      hiddenSize: 128,
      headSize: 32,
      ffnSize: 128,
      experts: {
        count: 12,
        size: 128,
        router: { score: 'softmax', used: 2, normalized: false, scale: 1 },
      },
    });
    // Eight experts.
    await expectPromises(backends.binding(8 * 32 * 1024), model, 'q8');
  });
});

function eachBody(spec: ModelSpec, change: (body: BodySpec) => BodySpec): ModelSpec {
  return {
    ...spec,
    layers: spec.layers.map(({ branches }) => ({
      branches: branches.map((branch) => ({
        ...branch,
        parts: branch.parts.map((part) => ({ ...part, body: change(part.body) })),
      })),
    })),
  };
}

/** The router has one row for all. */
function withEqualScores(body: BodySpec): BodySpec {
  if (body.kind !== 'moe') return body;
  const { linear } = body.router;
  const weight = { ...linear.weight, runs: { rows: 1, every: 0 } };
  return { ...body, router: { ...body.router, linear: { ...linear, weight } } };
}
